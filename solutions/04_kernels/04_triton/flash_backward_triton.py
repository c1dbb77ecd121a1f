"""FlashAttention backward in Triton, without atomics: bit-identical from run to run.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


### BEGIN SOLUTION
@triton.jit
def delta_kernel(
    o_ptr, do_ptr, delta_ptr, N, H, stride_db, stride_dh, stride_dn, D: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row_ok = row < N
    d = tl.arange(0, D)
    do_ptr += head // H * stride_db + head % H * stride_dh
    at = head * N + row
    o = tl.load(o_ptr + at[:, None] * D + d[None, :], mask=row_ok[:, None], other=0.0).to(tl.float32)
    do = tl.load(do_ptr + row[:, None].to(tl.int64) * stride_dn + d[None, :], mask=row_ok[:, None], other=0.0)
    tl.store(delta_ptr + at, tl.sum(o * do.to(tl.float32), 1), mask=row_ok)


@triton.jit
def load_lse(lse_ptr, at, ok):
    """lse in base 2, +inf for rows that do not exist or see nothing: exp2(s - inf) makes their weights 0."""
    lse = tl.load(lse_ptr + at, mask=ok, other=float("inf"))
    return tl.where(lse == float("-inf"), float("inf"), lse) * 1.4426950408889634


@triton.jit
def key_gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, N, M, scale, H, group,
    stride_db, stride_dh, stride_dn,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One tile of keys of one KV head, against all query tiles of the group's heads that can see it."""
    tile = tl.program_id(0)
    kv_head = tl.program_id(1).to(tl.int64)  # batch * HK + head: k and v are contiguous
    key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    key_ok = key < M
    d = tl.arange(0, D)
    key_at = (kv_head * M + key)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + key_at, mask=key_ok[:, None], other=0.0)
    v = tl.load(v_ptr + key_at, mask=key_ok[:, None], other=0.0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)

    offset = M - N
    scale_log2 = scale * 1.4426950408889634
    first = 0
    if CAUSAL:
        # The first row that sees the tile's first key, rounded down to the start of its query tile.
        first = tl.maximum(0, tile * BLOCK_N - offset) // BLOCK_M * BLOCK_M
    for member in range(group):
        head = kv_head * group + member  # batch * H + query head
        do_head_ptr = do_ptr + head // H * stride_db + head % H * stride_dh
        for start in range(first, N, BLOCK_M):
            row = start + tl.arange(0, BLOCK_M)
            row_ok = row < N
            at = head * N + row
            q = tl.load(q_ptr + at[:, None] * D + d[None, :], mask=row_ok[:, None], other=0.0)
            do_at = row[:, None].to(tl.int64) * stride_dn + d[None, :]
            do = tl.load(do_head_ptr + do_at, mask=row_ok[:, None], other=0.0)
            lse = load_lse(lse_ptr, at, row_ok)
            delta = tl.load(delta_ptr + at, mask=row_ok, other=0.0)
            # Everything is transposed here: keys are rows.
            p = tl.exp2(tl.dot(k, tl.trans(q), input_precision="ieee") * scale_log2 - lse[None, :])
            if CAUSAL:
                p = tl.where(key[:, None] <= row[None, :] + offset, p, 0.0)
            dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
            dp = tl.dot(v, tl.trans(do), input_precision="ieee")
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    tl.store(dk_ptr + key_at, dk * scale, mask=key_ok[:, None])
    tl.store(dv_ptr + key_at, dv, mask=key_ok[:, None])


@triton.jit
def query_gradients_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, N, M, scale, H, group,
    stride_db, stride_dh, stride_dn,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head, against the key tiles that it can see."""
    tile = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // group
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_ok = row < N
    d = tl.arange(0, D)
    at = head * N + row
    do_ptr += head // H * stride_db + head % H * stride_dh
    q = tl.load(q_ptr + at[:, None] * D + d[None, :], mask=row_ok[:, None], other=0.0)
    do_at = row[:, None].to(tl.int64) * stride_dn + d[None, :]
    do = tl.load(do_ptr + do_at, mask=row_ok[:, None], other=0.0)
    lse = load_lse(lse_ptr, at, row_ok)
    delta = tl.load(delta_ptr + at, mask=row_ok, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)

    offset = M - N
    scale_log2 = scale * 1.4426950408889634
    end = M
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(M, (tile + 1) * BLOCK_M + offset))
    for start in range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        key_ok = key < M
        key_at = (kv_head * M + key)[:, None] * D + d[None, :]
        k = tl.load(k_ptr + key_at, mask=key_ok[:, None], other=0.0)
        v = tl.load(v_ptr + key_at, mask=key_ok[:, None], other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2 - lse[:, None])
        visible = key_ok[None, :]
        if CAUSAL:
            visible = visible & (key[None, :] <= row[:, None] + offset)
        p = tl.where(visible, p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    tl.store(dq_ptr + at[:, None] * D + d[None, :], dq * scale, mask=row_ok[:, None])


### END SOLUTION


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
    do, of which only the last dimension is. scale: any number; D ** -0.5 if None. Returns new contiguous tensors in the
    inputs' dtype; dk and dv have HK heads: query head h reads KV head h // (H // HK), and a KV head collects the sum
    over its group.

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
    ### BEGIN SOLUTION
    (B, H, N, D), (HK, M) = q.shape, k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    block_m = block_m or (64 if q.element_size() == 2 else 32)
    block_n = block_n or (64 if q.element_size() == 2 else 32)
    delta = torch.empty((B, H, N), dtype=torch.float32, device=q.device)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    common = {"CAUSAL": causal, "D": D, "BLOCK_M": block_m, "BLOCK_N": block_n}
    tuning = {"num_warps": 8 if D >= 128 else 4, "num_stages": 2}
    delta_kernel[(triton.cdiv(N, block_m), B * H)](o, do, delta, N, H, *do.stride()[:3], D=D, BLOCK=block_m)
    key_gradients_kernel[(triton.cdiv(M, block_n), B * HK)](
        q, k, v, do, lse, delta, dk, dv, N, M, scale, H, H // HK, *do.stride()[:3], **common, **tuning
    )
    query_gradients_kernel[(triton.cdiv(N, block_m), B * H)](
        q, k, v, do, lse, delta, dq, N, M, scale, H, H // HK, *do.stride()[:3], **common, **tuning
    )
    return dq, dk, dv
    ### END SOLUTION
