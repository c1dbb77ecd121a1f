"""Natural exponentials, operands turned by their addresses, explicit masks, heads in the inner loop."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _dots(O, DO, OUT, H, N, b_stride, h_stride, n_stride, D: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    both = row // N
    there = both // H * b_stride + both % H * h_stride + row % N * n_stride
    tl.store(OUT + row, tl.sum(tl.load(O + row * D + d).to(tl.float32) * tl.load(DO + there + d).to(tl.float32)))


@triton.jit
def _for_keys(Q, K, V, DO, LSE, DELTA, DK, DV, N, M, H, HK, scale, b_stride, h_stride, n_stride,
              CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    tiles = tl.cdiv(M, BN)
    tile = tl.program_id(0) % tiles
    owner = tl.program_id(0) // tiles
    b = owner // HK
    group = H // HK
    keys = tile * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    there = owner * M * D + keys[:, None] * D + d[None, :]
    k = tl.load(K + there, keys[:, None] < M, 0.0)
    v = tl.load(V + there, keys[:, None] < M, 0.0)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    begin = 0
    if CAUSAL:
        begin = tl.maximum(tile * BN + N - M, 0) // BM
    for i in range(begin, tl.cdiv(N, BM)):
        rows = i * BM + tl.arange(0, BM)
        for j in range(group):
            h = owner % HK * group + j
            base = (b * H + h) * N
            lse = tl.load(LSE + base + rows, rows < N, 0.0)
            delta = tl.load(DELTA + base + rows, rows < N, 0.0)
            shown = (rows[None, :] < N) & (keys[:, None] < M) & (lse[None, :] > float("-inf"))
            if CAUSAL:
                shown &= rows[None, :] + M - N >= keys[:, None]
            q_t = tl.load(Q + base * D + rows[None, :] * D + d[:, None], rows[None, :] < N, 0.0)
            scores = tl.dot(k, q_t, input_precision="ieee") * scale
            p = tl.where(shown, tl.exp(tl.where(shown, scores - lse[None, :], 0.0)), 0.0)
            do = tl.load(
                DO + b * b_stride + h * h_stride + rows[:, None] * n_stride + d[None, :], rows[:, None] < N, 0.0
            )
            dv += tl.dot(p.to(do.dtype), do, input_precision="ieee")
            ds = p * (tl.dot(v, tl.trans(do), input_precision="ieee") - delta[None, :]) * scale
            dk += tl.dot(ds.to(k.dtype), tl.trans(q_t), input_precision="ieee")
    tl.store(DK + there, dk.to(DK.dtype.element_ty), keys[:, None] < M)
    tl.store(DV + there, dv.to(DV.dtype.element_ty), keys[:, None] < M)


@triton.jit
def _for_queries(Q, K, V, DO, LSE, DELTA, DQ, N, M, H, HK, scale, b_stride, h_stride, n_stride,
                 CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    both = tl.program_id(1)
    b = both // H
    h = both % H
    owner = b * HK + h // (H // HK)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    here = both * N * D + rows[:, None] * D + d[None, :]
    q = tl.load(Q + here, rows[:, None] < N, 0.0)
    do = tl.load(DO + b * b_stride + h * h_stride + rows[:, None] * n_stride + d[None, :], rows[:, None] < N, 0.0)
    lse = tl.load(LSE + both * N + rows, rows < N, 0.0)
    delta = tl.load(DELTA + both * N + rows, rows < N, 0.0)
    dq = tl.zeros((BM, D), tl.float32)
    stop = M
    if CAUSAL:
        stop = tl.minimum(tl.maximum(tl.program_id(0) * BM + BM + M - N, 0), M)
    for start in range(0, stop, BN):
        keys = start + tl.arange(0, BN)
        there = owner * M * D + keys[None, :] * D + d[:, None]
        k_t = tl.load(K + there, keys[None, :] < M, 0.0)
        v_t = tl.load(V + there, keys[None, :] < M, 0.0)
        shown = (keys[None, :] < M) & (lse[:, None] > float("-inf"))
        if CAUSAL:
            shown &= rows[:, None] + M - N >= keys[None, :]
        p = tl.exp(tl.where(shown, tl.dot(q, k_t, input_precision="ieee") * scale - lse[:, None], float("-inf")))
        ds = p * (tl.dot(do, v_t, input_precision="ieee") - delta[:, None])
        dq += tl.dot(ds.to(q.dtype), tl.trans(k_t), input_precision="ieee")
    tl.store(DQ + here, (dq * scale).to(DQ.dtype.element_ty), rows[:, None] < N)


def flash_attention_backward(q, k, v, o, lse, do, *, causal=False, scale=None, block_m=None, block_n=None):
    batch, heads, n, d = q.shape
    kv_heads, m = k.shape[1], k.shape[2]
    bm, bn = block_m or 32, block_n or 32
    scale = 1 / math.sqrt(d) if scale is None else scale
    delta = torch.empty_like(lse)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    strides = do.stride()[:3]
    fixed = {"CAUSAL": causal, "D": d, "BM": bm, "BN": bn}
    _dots[(batch * heads * n,)](o, do, delta, heads, n, *strides, D=d)
    _for_keys[(triton.cdiv(m, bn) * batch * kv_heads,)](
        q, k, v, do, lse, delta, dk, dv, n, m, heads, kv_heads, scale, *strides, **fixed
    )
    _for_queries[(triton.cdiv(n, bm), batch * heads)](
        q, k, v, do, lse, delta, dq, n, m, heads, kv_heads, scale, *strides, **fixed
    )
    return dq, dk, dv
