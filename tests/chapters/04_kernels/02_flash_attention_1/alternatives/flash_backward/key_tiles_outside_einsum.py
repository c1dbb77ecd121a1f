"""Outer loop over key tiles, einsum throughout, in-place tiles, probabilities masked with 0 after exp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
import math


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


def flash_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv): the gradients of (o * do).sum() for o = softmax(scale * q @ k.mT) @ v.

    q, o, do: (B, H, n, d); k, v: (B, H, m, d); lse: (B, H, n). Any strides. The gradients have the inputs' dtype.
    float16 inputs come with lse in float32 and are computed and accumulated in float32; float32 and float64 stay what
    they are (lse of the same dtype). scale None means d ** -0.5; any other number is used as it is.

    With s_ij = scale * (q_i . k_j), for every tile of block_q queries and block_k keys:

        p_ij    = exp(s_ij - lse_i)               the probabilities, at once: no maximum, no sum
        delta_i = sum_c do_ic * o_ic              = sum_j p_ij * dp_ij over all keys, but needs no tile
        dv_j   += sum_i p_ij * do_i
        dp_ij   = do_i . v_j
        ds_ij   = p_ij * (dp_ij - delta_i)
        dq_i   += scale * sum_j ds_ij * k_j
        dk_j   += scale * sum_i ds_ij * q_i

    o and lse are used as given (a worker that holds a part of the keys gets the o and lse of all of them): o enters
    only through delta, lse only through p, and nothing is normalised again.

    causal: query i sees key j where j <= i + m - n; p is 0 elsewhere. Rows with lse = -inf saw no key: their p is 0,
    their dq exactly 0, and they add nothing to dk and dv.

    Cost: five matrix products a tile, 10 * block_q * block_k * d FLOPs per head (2 % more is accepted); tiles without a
    visible pair are skipped. No tensor has more than B * H * max(block_q * block_k, n * d, m * d) elements.
    Source: arXiv:2205.14135, appendix B; arXiv:2307.08691, algorithm 2.
    """
    B, H, n, d = q.shape
    m = k.shape[2]
    alpha = 1.0 / math.sqrt(d) if scale is None else float(scale)
    acc = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    grads = [torch.zeros_like(t, dtype=acc, memory_format=torch.contiguous_format) for t in (q, k, v)]
    delta = torch.einsum("bhnd,bhnd->bhn", do.to(acc), o.to(acc))
    blind = lse.isneginf()
    for kb, vb, dkb, dvb, j in zip(
        *(t.split(block_k, 2) for t in (k, v, *grads[1:])), range(0, m, block_k), strict=True
    ):
        kb, vb = kb.to(acc), vb.to(acc)
        first = max(0, j - (m - n)) // block_q if causal else 0
        for i in range(first * block_q, n, block_q):
            e = min(i + block_q, n)
            qb, dob = q[..., i:e, :].to(acc), do[..., i:e, :].to(acc)
            p = torch.einsum("bhid,bhjd->bhij", qb, kb).mul_(alpha)
            p.sub_(lse[..., i:e, None].to(acc)).exp_()
            if causal:
                offset = i + m - n - j
                mask = torch.tril(torch.ones(p.shape[-2:], dtype=torch.bool), offset)
                p.masked_fill_(~mask, 0.0)
            p.masked_fill_(blind[..., i:e, None], 0.0)
            dvb += torch.einsum("bhij,bhid->bhjd", p, dob)
            ds = torch.einsum("bhid,bhjd->bhij", dob, vb).sub_(delta[..., i:e, None]).mul_(p).mul_(alpha)
            grads[0][..., i:e, :] += torch.einsum("bhij,bhjd->bhid", ds, kb)
            dkb += torch.einsum("bhij,bhid->bhjd", ds, qb)
    return tuple(g.to(t.dtype) for g, t in zip(grads, (q, k, v), strict=True))


class FlashAttention(torch.autograd.Function):
    """FlashAttention.apply(q, k, v, causal, scale, block) -> o, tiled_forward with flash_backward as its gradient.

    block is block_q and block_k of both. What is kept for the backward pass is q, k, v, o and lse: at most
    4 * B * H * max(n, m) * d + B * H * n elements, where probabilities would be B * H * n * m.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None, block: int = 64
    ) -> Tensor:
        """o; keeps on ctx what backward needs."""
        o, lse = tiled_forward(q, k, v, causal=causal, scale=scale, block_q=block, block_k=block)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = {"causal": causal, "scale": scale, "block_q": block, "block_k": block}
        return o

    @staticmethod
    def backward(ctx: Any, do: Tensor) -> tuple[Tensor | None, ...]:
        """One gradient for each argument of forward; None for those that are not tensors."""
        return *flash_backward(*ctx.saved_tensors, do, **ctx.options), None, None, None


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None, block: int = 64
) -> Tensor:
    """Given: attention by your FlashAttention. q (B, H, n, d); k, v (B, H, m, d) -> (B, H, n, d)."""
    return FlashAttention.apply(q, k, v, causal, scale, block)
