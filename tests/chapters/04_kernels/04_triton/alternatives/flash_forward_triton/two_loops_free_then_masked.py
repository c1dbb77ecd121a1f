"""3-D grid, stride tuples, a helper for a tile: unmasked tiles first, then the diagonal ones; -1e30 instead of -inf as the first maximum; acc*alpha + dot."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
import math


@triton.jit
def _tile(acc, l, m, q, k_ptr, v_ptr, sk, sv, j, last, rows_last, factor, MASK: tl.constexpr, BN: tl.constexpr):
    """One key tile; last: number of keys, rows_last: the last visible key of each row."""
    cols = j + tl.arange(0, BN)
    c = tl.arange(0, acc.shape[1])
    k = tl.load(k_ptr + cols[:, None].to(tl.int64) * sk + c[None, :], mask=(cols < last)[:, None], other=0)
    v = tl.load(v_ptr + cols[:, None].to(tl.int64) * sv + c[None, :], mask=(cols < last)[:, None], other=0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * factor
    if MASK:
        s += tl.where(cols[None, :] <= rows_last[:, None], 0.0, -float("inf"))
    new = tl.maximum(m, tl.max(s, 1))
    p = tl.exp2(s - new[:, None])
    shrink = tl.exp2(m - new)
    l = l * shrink + tl.sum(p, 1)
    acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return acc, l, new


@triton.jit
def _fwd(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    sq,
    sk,
    sv,
    n,
    m,
    factor,
    RATIO: tl.constexpr,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    i = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM  # the longest first
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    r = i + tl.arange(0, BM)
    c = tl.arange(0, D)
    q_ptr += b * sq[0] + h * sq[1]
    k_ptr += b * sk[0] + h // RATIO * sk[1]
    v_ptr += b * sv[0] + h // RATIO * sv[1]
    q = tl.load(q_ptr + r[:, None].to(tl.int64) * sq[2] + c[None, :], mask=r[:, None] < n, other=0)
    # -1e30 stands for "nothing seen": no NaN, and exp2 of a difference is 0
    peak = tl.full((BM,), -1e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    if CAUSAL:
        rows_last = tl.minimum(r + (m - n), m - 1)
        free = tl.maximum(0, tl.minimum(i + 1 + m - n, m)) // BN * BN
        end = tl.maximum(0, tl.minimum(i + BM, n) + m - n)
    else:
        rows_last = tl.full((BM,), 0, tl.int32) + (m - 1)
        free = m // BN * BN
        end = m
    for j in range(0, free, BN):
        acc, l, peak = _tile(acc, l, peak, q, k_ptr, v_ptr, sk[2], sv[2], j, m, rows_last, factor, False, BN)
    for j in range(free, end, BN):
        acc, l, peak = _tile(acc, l, peak, q, k_ptr, v_ptr, sk[2], sv[2], j, m, rows_last, factor, True, BN)
    acc = acc / tl.where(l > 0, l, 1)[:, None]
    row = (b * tl.num_programs(1) + h) * n + r
    tl.store(o_ptr + row[:, None] * D + c[None, :], acc.to(q.dtype), mask=r[:, None] < n)
    tl.store(lse_ptr + row, tl.where(l > 0, (peak + tl.log2(l)) * 0.6931471805599453, -float("inf")), mask=r < n)


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * q k^T) v without the N x M matrix, and the logsumexp of each row (arXiv:2307.08691).

    q (B, H, N, D), k and v (B, HK, M, D), in one dtype (float32, float16 or bfloat16), all sizes >= 1, H a multiple of
    HK, D 32, 64 or 128. The last dimension is contiguous, the other strides are free: transposed views and slices of a
    fused tensor are read where they lie. scale: D ** -0.5 if None. Returns o (B, H, N, D), contiguous, in q's dtype,
    and lse (B, H, N), float32, the natural logarithm of the sum of exp(scale * q . k) over the visible keys.

    Query head h reads KV head h // (H // HK). causal: row i sees the keys j <= i + M - N (aligned bottom right: the
    last query sees the last key). A row that sees no key gives o = 0 and lse = -inf.

    One launch: a program owns block_m queries of one head, loads them once, and walks the key tiles that they can see,
    block_n keys at a time, with the online softmax. Maximum, sum and accumulator stay in float32; the weights are
    rounded to v's dtype for the product with v; float32 inputs are multiplied in full precision
    (input_precision="ieee"). Hardware computes 2**x, so scores are kept in base 2: log2(e) goes into the scale. block_m
    and block_n, powers of two >= 16, are used as given; None leaves the choice to you. Errors of o are at most 1e-5 in
    float32 and 2e-3 in float16, relative to the value or to the rms of its row if that is larger, 5e-3 where scores run
    to thousands; lse errs by 1e-5.

    Cost: ceil(N / block_m) * B * H programs. q is read once, o and lse are written once. A query tile visits the key
    tiles up to the last key that its last row can see; each visited tile costs two tl.dot and reads its keys and values
    (those that exist) once: 2 * D * min(M, visible keys rounded up to block_n) elements per query tile and query head.
    No block is larger than max(block_m * block_n, block_m * D, block_n * D) elements. float16 with blocks (128, 64) and
    D 64 or 128 compiles for sm_90 within 232448 bytes of shared memory, and with wgmma.
    """
    b, h, n, d = q.shape
    hk, m = k.shape[1:3]
    bm, bn = block_m or 64, block_n or 32
    o = q.new_empty(b, h, n, d)
    lse = q.new_empty(b, h, n, dtype=torch.float32)
    _fwd[(triton.cdiv(n, bm), h, b)](
        q,
        k,
        v,
        o,
        lse,
        q.stride(),
        k.stride(),
        v.stride(),
        n,
        m,
        (d**-0.5 if scale is None else scale) * math.log2(math.e),
        h // hk,
        causal,
        d,
        bm,
        bn,
        num_warps=8 if bm * bn > 4096 else 4,
    )
    return o, lse
