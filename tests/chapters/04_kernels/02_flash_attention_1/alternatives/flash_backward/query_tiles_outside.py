"""Query tiles outside, einsum inside, dq stacked from its tiles; the Function takes its options apart by hand."""

from __future__ import annotations

import torch
from torch import Tensor


def tiled_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[Tensor, Tensor]:
    """Given: the forward pass of the last exercise, for all heads at once.

    q (B, H, n, d); k, v (B, H, m, d) -> o (B, H, n, d) in q's dtype, lse (B, H, n) in float32 (float64 for float64).
    scale None means d ** -0.5. causal: query i sees key j where j <= i + m - n; blind rows get o = 0, lse = -inf.
    """
    n, m, d = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = d**-0.5 if scale is None else scale
    sums = torch.float64 if q.dtype == torch.float64 else torch.float32
    o = torch.zeros_like(q)
    lse = q.new_full(q.shape[:-1], -torch.inf, dtype=sums)
    for i in range(0, n, block_q):
        q_i = q[..., i : i + block_q, :].to(sums) * scale
        rows = q_i.shape[-2]
        peak, l, acc = lse[..., i : i + rows], q_i.new_zeros(q_i.shape[:-1]), torch.zeros_like(q_i)
        for j in range(0, max(0, i + rows + m - n) if causal else m, block_k):
            k_j, v_j = k[..., j : j + block_k, :].to(sums), v[..., j : j + block_k, :].to(sums)
            s = q_i @ k_j.mT
            if causal:
                hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(i + m - n - j + 1)
                s = s.masked_fill(hidden, -torch.inf)
            new_peak = torch.maximum(peak, s.amax(-1))
            reference = torch.where(new_peak == -torch.inf, 0.0, new_peak)
            rescale, p = torch.exp(peak - reference), torch.exp(s - reference[..., None])
            peak, l, acc = new_peak, l * rescale + p.sum(-1), acc * rescale[..., None] + p @ v_j
        o[..., i : i + rows, :] = acc / torch.where(l > 0, l, 1.0)[..., None]
        lse[..., i : i + rows] = peak + torch.log(l)
    return o, lse


def flash_backward(q, k, v, o, lse, do, *, causal=False, scale=None, block_q=64, block_k=64):
    B, H, n, d = q.shape
    m = k.shape[2]
    scale = d**-0.5 if scale is None else scale
    acc = torch.promote_types(q.dtype, torch.float32)
    delta = torch.einsum("bhid,bhid->bhi", do.to(acc), o.to(acc))
    dk = torch.zeros(B, H, m, d, dtype=acc)
    dv = torch.zeros(B, H, m, d, dtype=acc)
    dq_tiles = []
    for i0 in range(0, n, block_q):
        i1 = min(n, i0 + block_q)
        Q, G = q[:, :, i0:i1].to(acc), do[:, :, i0:i1].to(acc)
        L = lse[:, :, i0:i1, None]
        dQ = torch.zeros_like(Q)
        for j0 in range(0, m, block_k):
            if causal and j0 > i1 - 1 + m - n:
                continue
            j1 = min(m, j0 + block_k)
            K, V = k[:, :, j0:j1].to(acc), v[:, :, j0:j1].to(acc)
            S = torch.einsum("bhid,bhjd->bhij", Q, K) * scale
            keep = -float("inf") < L
            if causal:
                i, j = torch.meshgrid(torch.arange(i0, i1), torch.arange(j0, j1), indexing="ij")
                keep = keep & (j - i <= m - n)
            P = torch.where(keep, torch.exp(S - L), 0.0)
            dP = torch.einsum("bhid,bhjd->bhij", G, V)
            dS = P * (dP - delta[:, :, i0:i1, None])
            dQ += scale * torch.einsum("bhij,bhjd->bhid", dS, K)
            dk[:, :, j0:j1] += scale * torch.einsum("bhij,bhid->bhjd", dS, Q)
            dv[:, :, j0:j1] += torch.einsum("bhij,bhid->bhjd", P, G)
        dq_tiles.append(dQ)
    return torch.cat(dq_tiles, 2).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        q, k, v, causal, scale, block = arguments
        o, lse = tiled_forward(q, k, v, causal=causal, scale=scale, block_q=block, block_k=block)
        ctx.options = {"causal": causal, "scale": scale, "block_q": block, "block_k": block}
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        return (*flash_backward(*ctx.saved_tensors, do, **ctx.options), None, None, None)


def flash_attention(q, k, v, causal=False, scale=None, block=64):
    return FlashAttention.apply(q, k, v, causal, scale, block)
