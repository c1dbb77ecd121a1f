"""Heads one by one, tiles in a list, scale folded into q and k beforehand."""

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


def visible_tiles(n, m, block_q, block_k, causal):
    for i in range(0, n, block_q):
        for j in range(0, m, block_k):
            if not causal or j < min(i + block_q, n) + m - n:
                yield slice(i, min(i + block_q, n)), slice(j, min(j + block_k, m))


def one_head(q, k, v, o, lse, do, causal, scale, block_q, block_k):
    n, m = len(q), len(k)
    grads = dq, dk, dv = [torch.zeros(x.shape, dtype=x.dtype) for x in (q, k, v)]
    scaled_q = q * scale
    delta = (o * do).sum(1)
    for i, j in visible_tiles(n, m, block_q, block_k, causal):
        s = scaled_q[i] @ k[j].T
        if causal:
            s.masked_fill_(torch.arange(m)[j] > torch.arange(n)[i, None] + m - n, float("-inf"))
        p = (s - lse[i, None]).exp().nan_to_num(nan=0.0, posinf=0.0)
        dv[j] += p.T @ do[i]
        ds = torch.addmm(-delta[i, None], do[i], v[j].T) * p
        dq[i] += (ds @ k[j]) * scale
        dk[j] += ds.T @ scaled_q[i]
    return grads


def flash_backward(q, k, v, o, lse, do, *, causal=False, scale=None, block_q=64, block_k=64):
    scale = q.size(-1) ** -0.5 if scale is None else scale
    wide = [x.double() if x.dtype == torch.float64 else x.float() for x in (q, k, v, o, lse, do)]
    out = [torch.empty(x.shape, dtype=x.dtype) for x in (q, k, v)]
    for b in range(q.size(0)):
        for h in range(q.size(1)):
            grads = one_head(*(x[b, h] for x in wide), causal, scale, block_q, block_k)
            for target, grad in zip(out, grads, strict=True):
                target[b, h] = grad
    return tuple(out)


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=None, block=64):
        o, lse = tiled_forward(q, k, v, causal=causal, scale=scale, block_q=block, block_k=block)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = causal, scale, block
        return o

    @staticmethod
    def backward(ctx, do):
        causal, scale, block = ctx.options
        dq, dk, dv = flash_backward(*ctx.saved_tensors, do, causal=causal, scale=scale, block_q=block, block_k=block)
        return dq, dk, dv, None, None, None


def flash_attention(q, k, v, causal=False, scale=None, block=64):
    return FlashAttention.apply(q, k, v, causal, scale, block)
