"""Natural exponentials; whole tiles and cut tiles in two loops; a one-dimensional grid, last query tiles first."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _walk(acc, peak, total, q, k, v, first, last, queries, shift, M, stride_k, stride_v, scale,
          CUT: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    dims = tl.arange(0, D)
    for start in range(first, last, BN):
        keys = start + tl.arange(0, BN)
        if CUT:
            keys_t = tl.load(k + keys[None, :] * stride_k + dims[:, None], keys[None, :] < M, 0.0)
            values = tl.load(v + keys[:, None] * stride_v + dims[None, :], keys[:, None] < M, 0.0)
        else:
            keys_t = tl.load(k + keys[None, :] * stride_k + dims[:, None])
            values = tl.load(v + keys[:, None] * stride_v + dims[None, :])
        scores = tl.dot(q, keys_t, input_precision="ieee") * scale
        if CUT:
            hidden = keys[None, :] >= M
            if CAUSAL:
                hidden |= keys[None, :] > queries[:, None] + shift
            scores = tl.where(hidden, float("-inf"), scores)
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        base = tl.where(higher > float("-inf"), higher, 0.0)
        weights = tl.exp(scores - base[:, None])
        old = tl.exp(peak - base)
        total = total * old + tl.sum(weights, axis=1)
        acc = acc * old[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        peak = higher
    return acc, peak, total


@triton.jit
def _attend(Q, K, V, O, LSE, N, M, H, HK, scale, qb, qh, qn, kb, kh, kn, vb, vh, vn,
            CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    tiles = tl.cdiv(N, BM)
    tile = tiles - 1 - tl.program_id(0) % tiles
    both = tl.program_id(0) // tiles
    b = both // H
    h = both - b * H
    g = h * HK // H
    queries = tile * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    q = tl.load(Q + b * qb + h * qh + queries[:, None] * qn + dims[None, :], queries[:, None] < N, 0.0)
    shift = M - N
    whole = M
    stop = M
    if CAUSAL:
        whole = tl.minimum(M, tl.maximum(0, tile * BM + shift + 1))
        stop = tl.minimum(M, tl.maximum(0, tl.minimum(N, tile * BM + BM) + shift))
    whole = whole // BN * BN
    acc = tl.zeros((BM, D), tl.float32)
    peak = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    K += b * kb + g * kh
    V += b * vb + g * vh
    acc, peak, total = _walk(acc, peak, total, q, K, V, 0, whole, queries, shift, M, kn, vn, scale,
                             CUT=False, CAUSAL=CAUSAL, D=D, BN=BN)  # fmt: skip
    acc, peak, total = _walk(acc, peak, total, q, K, V, whole, stop, queries, shift, M, kn, vn, scale,
                             CUT=True, CAUSAL=CAUSAL, D=D, BN=BN)  # fmt: skip
    blind = total == 0
    out = acc / tl.where(blind, 1.0, total)[:, None]
    place = both * N + queries
    tl.store(O + place[:, None] * D + dims[None, :], out.to(O.dtype.element_ty), queries[:, None] < N)
    lse = tl.where(blind, float("-inf"), peak + tl.log(tl.where(blind, 1.0, total)))
    tl.store(LSE + place, lse, queries < N)


def flash_attention(q, k, v, *, causal=False, scale=None, block_m=None, block_n=None):
    batch, heads, n, d = q.shape
    bm, bn = block_m or 64, block_n or 64
    out = torch.empty(batch, heads, n, d, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, n, dtype=torch.float32, device=q.device)
    _attend[(triton.cdiv(n, bm) * batch * heads,)](
        q, k, v, out, lse, n, k.shape[2], heads, k.shape[1], 1 / math.sqrt(d) if scale is None else scale,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        CAUSAL=causal, D=d, BM=bm, BN=bn, num_warps=8 if d == 128 else 4,
    )  # fmt: skip
    return out, lse
