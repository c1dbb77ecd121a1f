"""Shared helpers for row tiles and for (P, dS), 3-D grids, base e, masks before exp, tl.trans of P and dS, lse/delta read per tile in the dq kernel too."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _rowdot(o_ptr, do_ptr, delta_ptr, total, n, h, st, D: tl.constexpr, R: tl.constexpr):
    """Rows of all heads in one long list."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    at = (r // n // h) * st[0] + (r // n % h) * st[1] + (r % n) * st[2]
    c = tl.arange(0, D)[None, :]
    ok = (r < total)[:, None]
    x = tl.load(o_ptr + r[:, None] * D + c, mask=ok, other=0).to(tl.float32)
    y = tl.load(do_ptr + at[:, None] + c, mask=ok, other=0).to(tl.float32)
    tl.store(delta_ptr + r, tl.sum(x * y, 1), mask=r < total)


@triton.jit
def _rows(ptr, start, count, stride, D: tl.constexpr, B: tl.constexpr):
    r = start + tl.arange(0, B)
    return tl.load(
        ptr + r[:, None].to(tl.int64) * stride + tl.arange(0, D)[None, :], mask=(r < count)[:, None], other=0
    )


@triton.jit
def _p_ds(q, k, v, do, lse_ptr, delta_ptr, i, j, n, m, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """The probabilities and dS of one tile, (BM, BN), 0 where nothing is visible."""
    r = i + tl.arange(0, BM)
    c = j + tl.arange(0, BN)
    lse = tl.load(lse_ptr + r, mask=r < n, other=-float("inf"))
    delta = tl.load(delta_ptr + r, mask=r < n, other=0)
    ok = (lse > -float("inf"))[:, None] & (c < m)[None, :]
    if CAUSAL:
        ok &= c[None, :] <= r[:, None] + m - n
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    p = tl.exp(tl.where(ok, s - lse[:, None], -float("inf")))
    ds = p * (tl.dot(do, tl.trans(v), input_precision="ieee") - delta[:, None])
    return p.to(q.dtype), ds.to(q.dtype)


@triton.jit
def _keys(
    q,
    k,
    v,
    do,
    dk,
    dv,
    lse,
    delta,
    st,
    n,
    m,
    h,
    hk,
    scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    j = tl.program_id(0) * BN
    hkv = tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    base = (b * hk + hkv) * m * D
    kt = _rows(k + base, j, m, D, D, BN)
    vt = _rows(v + base, j, m, D, D, BN)
    dkt = tl.zeros((BN, D), tl.float32)
    dvt = tl.zeros((BN, D), tl.float32)
    first = tl.maximum(j + n - m, 0) // BM if CAUSAL else 0
    for head in range(hkv * (h // hk), (hkv + 1) * (h // hk)):
        row = (b * h + head) * n
        for t in range(first, tl.cdiv(n, BM)):
            i = t * BM
            qt = _rows(q + row * D, i, n, D, D, BM)
            dot = _rows(do + b * st[0] + head * st[1], i, n, st[2], D, BM)
            p, ds = _p_ds(qt, kt, vt, dot, lse + row, delta + row, i, j, n, m, scale, CAUSAL, BM, BN)
            dvt += tl.dot(tl.trans(p), dot, input_precision="ieee")
            dkt += tl.dot(tl.trans(ds), qt, input_precision="ieee")
    c = j + tl.arange(0, BN)
    at = base + c[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dk + at, dkt * scale, mask=(c < m)[:, None])
    tl.store(dv + at, dvt, mask=(c < m)[:, None])


@triton.jit
def _queries(
    q,
    k,
    v,
    do,
    dq,
    lse,
    delta,
    st,
    n,
    m,
    h,
    hk,
    scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    i = tl.program_id(0) * BM
    head = tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    row = (b * h + head) * n
    qt = _rows(q + row * D, i, n, D, D, BM)
    dot = _rows(do + b * st[0] + head * st[1], i, n, st[2], D, BM)
    base = (b * hk + head // (h // hk)) * m * D
    acc = tl.zeros((BM, D), tl.float32)
    last = tl.minimum(m, tl.minimum(i + BM, n) + m - n) if CAUSAL else m
    for j in range(0, last, BN):
        kt = _rows(k + base, j, m, D, D, BN)
        vt = _rows(v + base, j, m, D, D, BN)
        _, ds = _p_ds(qt, kt, vt, dot, lse + row, delta + row, i, j, n, m, scale, CAUSAL, BM, BN)
        acc += tl.dot(ds, kt, input_precision="ieee")
    r = i + tl.arange(0, BM)
    tl.store(dq + row * D + r[:, None] * D + tl.arange(0, D)[None, :], acc * scale, mask=(r < n)[:, None])


def flash_attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv): the gradients of sum(o * do) for o, lse = flash_attention(q, k, v, causal=..., scale=...).

    q, o and do (B, H, N, D), k and v (B, HK, M, D), in one dtype (float32, float16 or bfloat16); lse (B, H, N) float32,
    the natural logsumexp of each row. All sizes >= 1, H a multiple of HK, D 32, 64 or 128. All are contiguous except
    do, of which only the last dimension is. scale: D ** -0.5 if None. Returns new contiguous tensors in the inputs'
    dtype; dk and dv have HK heads: query head h reads KV head h // (H // HK), and a KV head collects the sum over its
    group.

    The weights are rebuilt from the lse that is given, P = exp(scale * q k^T - lse); no row is normalised anew. Then

        delta = rowsum(o * do)          in float32
        dv = P^T do          dP = do v^T          dS = P * (dP - delta)
        dq = scale * dS k          dk = scale * dS^T q

    (arXiv:2307.08691, with scale * q k^T as S). causal: row i sees the keys j <= i + M - N. A row that sees no key has
    lse = -inf: its dq is 0 and it adds nothing to dk and dv.

    Three launches. One stores delta. One gives a tile of block_n keys of a KV head to each program, which loops over
    the query heads of the group and over the query tiles of block_m rows that can see it, and keeps dk and dv in
    registers. One gives a tile of block_m queries to each program, which loops over the key tiles that it can see and
    keeps dq. Nothing is added with atomics, so the result does not depend on the order of the programs, not by a bit.
    Sums stay in float32; P and dS are rounded to the inputs' dtype for the products; float32 is multiplied in full
    precision (input_precision="ieee"). Errors are at most 1e-5 in float32 and 3e-3 in float16, relative to the value or
    to the rms of the tensor if that is larger; where dP - delta cancels, the rounding of dP in float32 is allowed too.
    block_m and block_n, powers of two >= 16, are used as given; None leaves the choice to you.

    Cost. A (query tile, key tile) pair is visited if some row of the one sees some key of the other. All launches
    together use at most seven tl.dot per visited pair and head, and load at most 1.15 times (2 * (block_m + block_n) *
    D elements per visited pair and head, plus twice q, k, v, o and do). dq, dk and dv are stored once; besides them
    only one float32 per query row is stored. float16 with D 64 and blocks (64, 64) compiles for sm_90 (an H100) with at
    most 128 bytes of spilled registers per thread; with D 128 and blocks of your choice it compiles within 232448 bytes
    of shared memory.
    """
    b, h, n, d = q.shape
    hk, m = k.shape[1:3]
    bm, bn = block_m or 32, block_n or 64
    grads = [torch.empty_like(t) for t in (q, k, v)]
    delta = q.new_empty(b * h * n, dtype=torch.float32)
    _rowdot[(triton.cdiv(b * h * n, 64),)](o, do, delta, b * h * n, n, h, do.stride(), D=d, R=64)
    rest = (lse, delta, do.stride(), n, m, h, hk, d**-0.5 if scale is None else scale)
    opts = dict(CAUSAL=causal, D=d, BM=bm, BN=bn, num_warps=8 if d == 128 else 4, num_stages=2)
    _keys[(triton.cdiv(m, bn), hk, b)](q, k, v, do, grads[1], grads[2], *rest, **opts)
    _queries[(triton.cdiv(n, bm), h, b)](q, k, v, do, grads[0], *rest, **opts)
    return tuple(grads)
