"""Tiles dealt round robin to splits, base-2 softmax, transposed key load, 3-D grid; two-pass combine one split at a time."""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention, torch.gather, torch.index_select,
# torch.softmax, torch.matmul.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


LOG2E = 1.4426950408889634


@triton.jit
def _attend(
    Q,
    K,
    V,
    TABLES,
    LENS,
    PART,
    LSE,
    q_b,
    q_h,
    t_b,
    factor,
    HK,
    group,
    D: tl.constexpr,
    BS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    kv_head = tl.program_id(1)
    part = tl.program_id(0)
    splits = tl.num_programs(0)
    seq = tl.program_id(2).to(tl.int64)
    length = tl.load(LENS + seq)
    offs_m, offs_n, offs_d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    live = offs_m < group
    heads = kv_head * group + offs_m
    q = tl.load(Q + seq * q_b + heads[:, None] * q_h + offs_d, mask=live[:, None], other=0)
    best = tl.full((M,), -float("inf"), dtype=tl.float32)
    total = tl.full((M,), 0, dtype=tl.float32)
    acc = tl.zeros((M, D), dtype=tl.float32)
    # round robin: split i takes tiles i, i + splits, ...
    for start in range(part * N, length, splits * N):
        p = start + offs_n
        inside = p < length
        page = tl.load(TABLES + seq * t_b + p // BS, mask=inside, other=0)
        rows = ((page.to(tl.int64) * BS + p % BS) * HK + kv_head) * D
        kt = tl.load(K + rows[None, :] + offs_d[:, None], mask=inside[None, :], other=0)
        s = tl.dot(q, kt, input_precision="ieee") * factor
        s = tl.where(inside[None, :], s, -float("inf"))
        top = tl.maximum(best, tl.max(s, axis=1))
        alpha = tl.exp2(best - top)
        w = tl.exp2(s - top[:, None])
        total = total * alpha + tl.sum(w, axis=1)
        v = tl.load(V + rows[:, None] + offs_d[None, :], mask=inside[:, None], other=0)
        acc = acc * alpha[:, None] + tl.dot(w.to(v.dtype), v, input_precision="ieee")
        best = top
    empty = total == 0
    acc = acc / tl.where(empty, 1, total)[:, None]
    lse = tl.where(empty, -float("inf"), best + tl.log2(tl.where(empty, 1, total)))
    at = (seq * splits + part) * (HK * group) + heads
    tl.store(PART + at[:, None] * D + offs_d, acc, mask=live[:, None])
    tl.store(LSE + at, lse, mask=live)


@triton.jit
def _merge(PART, LSE, OUT, splits, H, D: tl.constexpr):
    head = tl.program_id(0)
    seq = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, D)
    first = seq * splits * H + head
    top = tl.load(LSE + first)
    for i in range(1, splits):
        top = tl.maximum(top, tl.load(LSE + first + i * H))
    num = tl.zeros((D,), tl.float32)
    den = 0.0
    for i in range(splits):
        at = first + i * H
        lse = tl.load(LSE + at)
        w = tl.where(lse == -float("inf"), 0.0, tl.exp2(lse - top))
        num += w * tl.load(PART + at * D + d)
        den += w
    tl.store(OUT + (seq * H + head) * D + d, num / tl.where(den == 0.0, 1.0, den))


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    *,
    splits: int = 4,
    scale: float | None = None,
) -> Tensor:
    """Attention of one new query per sequence over its paged keys and values, split over the keys (flash decoding).

    q                 (B, H, D): float32, float16 or bfloat16; D is 64 or 128 and contiguous, the other strides are free
    k_cache, v_cache  (blocks, block_size, HK, D), contiguous, in q's dtype; block_size is 8, 16, 32 or 64
    block_tables      (B, W) int32, each row contiguous, any stride between rows: position p of sequence b lies at
                      offset p % block_size of block block_tables[b, p // block_size]. Sequences may share blocks.
                      Entries behind the context hold anything, 2**30 or -1: they are no addresses.
    context_lens      (B,) int32, contiguous: sequence b attends to its positions 0 ... context_lens[b] - 1. 0 is
                      allowed, and gives a result of 0.
    splits            >= 1, any number: programs that share the keys of a sequence. There may be more splits than
                      blocks; a split without keys counts for nothing.
    scale             factor on q . k; None means D ** -0.5, any other number is used as it is

    B, H, HK >= 1; H is a multiple of HK, and query head h reads KV head h // (H // HK). Slots of the cache that no
    context contains may hold NaN.

    Returns (B, H, D), contiguous, in q's dtype. At most two launches, and nothing but allocations and views besides:

    1. B * HK * splits programs. Each walks its share of the positions of one sequence for one KV head, in tiles of at
       least 16 positions, once for all H // HK query heads together: these are the rows of a tl.dot, padded to a power
       of two (16 rows fill a tensor core's tile). Online softmax; it leaves a normalised output and its logsumexp.
    2. The splits are combined: sum_s w_s out_s / sum_s w_s with w_s = exp(lse_s - max lse).

    Scores, sums and outputs stay in float32; the weights are rounded to v's dtype for their product with v, and float32
    inputs are multiplied in full precision (input_precision="ieee"). Errors are at most 1e-5 in float32 and 2e-3 in
    float16, relative to the value or to the rms of its head if that is larger; 5e-3 where scores run to thousands.

    Cost: exactly context * HK * D elements are loaded of each cache (summed over the sequences): no slot twice, none
    for each query head, none behind the context. Of q at most splits times its size is loaded. The result is stored
    once, and besides it at most B * H * splits * (D + 1) float32. Two tl.dot a tile. float16 compiles for sm_90 with
    at most 128 bytes of spilled registers per thread.
    Sources: arXiv:2309.06180 (paging), arXiv:2511.11581 (a Triton kernel like this one, step by step).
    """
    B, H, D = q.shape
    HK = k_cache.size(2)
    block_size = k_cache.size(1)
    factor = (D**-0.5 if scale is None else scale) * LOG2E
    rows = max(16, triton.next_power_of_2(H // HK))
    tile = 16 if block_size <= 16 else 32
    part = q.new_empty((B, splits, H, D), dtype=torch.float32)
    lse = q.new_empty((B, splits, H), dtype=torch.float32)
    out = q.new_empty((B, H, D))
    _attend[splits, HK, B](
        q,
        k_cache,
        v_cache,
        block_tables,
        context_lens,
        part,
        lse,
        q.stride(0),
        q.stride(1),
        block_tables.stride(0),
        factor,
        HK,
        H // HK,
        D=D,
        BS=block_size,
        M=rows,
        N=tile,
        num_warps=4 if rows <= 32 else 8,
    )
    _merge[H, B](part, lse, out, splits, H, D=D)
    return out
