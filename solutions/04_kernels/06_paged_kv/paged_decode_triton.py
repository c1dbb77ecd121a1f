"""One decode step over a paged cache in Triton, each sequence's keys split over several programs.

As with every kernel: masks on all edges, float32 inside, programs independent of each other, and a wrapper that only
allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter tl.dot multiplies its
raw bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


### BEGIN SOLUTION
@triton.jit
def paged_decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, context_ptr, partial_ptr, lse_ptr, scale, HK, G, stride_qb, stride_qh, stride_tb,
    D: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)

    # Each split walks an equal share of whole tiles; where there are fewer tiles than splits, some walk none.
    context = tl.load(context_ptr + batch)
    share = tl.cdiv(tl.cdiv(context, BLOCK_N), splits) * BLOCK_N
    first = split * share
    end = tl.minimum(context, first + share)

    row = tl.arange(0, BLOCK_G)
    row_ok = row < G
    head = kv_head * G + row
    col = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q_at = q_ptr + batch * stride_qb + head[:, None] * stride_qh + d[None, :]
    q = tl.load(q_at, mask=row_ok[:, None], other=0.0)
    m = tl.full((BLOCK_G,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    scale_log2 = scale * 1.4426950408889634  # scores in base 2: exp(s) = exp2(s * log2(e))
    for start in range(first, end, BLOCK_N):
        position = start + col
        position_ok = position < end
        block = tl.load(table_ptr + batch * stride_tb + position // BLOCK_SIZE, mask=position_ok, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE  # 64 bits: a cache is larger than 2**31
        at = (slot * HK + kv_head) * D
        k = tl.load(k_ptr + at[None, :] + d[:, None], mask=position_ok[None, :], other=0.0)
        v = tl.load(v_ptr + at[:, None] + d[None, :], mask=position_ok[:, None], other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale_log2
        s = tl.where(position_ok[None, :], s, float("-inf"))
        new_m = tl.maximum(m, tl.max(s, 1))  # finite: every visited tile holds a position
        p = tl.exp2(s - new_m[:, None])
        factor = tl.exp2(m - new_m)
        l = l * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None], input_precision="ieee")
        m = new_m

    # A split without keys stores 0 with the logsumexp -inf, which is weight 0 for the kernel below.
    total = tl.where(l > 0, l, 1.0)
    at = (batch * HK * G + head) * splits + split
    tl.store(partial_ptr + at[:, None] * D + d[None, :], acc / total[:, None], mask=row_ok[:, None])
    tl.store(lse_ptr + at, m + tl.log2(total), mask=row_ok)


@triton.jit
def combine_kernel(
    partial_ptr, lse_ptr, out_ptr, splits, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)  # of all heads of all sequences
    split = tl.arange(0, BLOCK_S)
    split_ok = split < splits
    d = tl.arange(0, D)
    at = head * splits + split
    lse = tl.load(lse_ptr + at, mask=split_ok, other=float("-inf"))
    partial = tl.load(partial_ptr + at[:, None] * D + d[None, :], mask=split_ok[:, None], other=0.0)
    top = tl.max(lse, 0)
    weight = tl.exp2(lse - tl.where(top == float("-inf"), 0.0, top))  # no split has keys: exp2(-inf - 0) is 0
    total = tl.sum(weight, 0)
    out = tl.sum(weight[:, None] * partial, 0) / tl.where(total > 0, total, 1.0)
    tl.store(out_ptr + head * D + d, out)


### END SOLUTION


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
    inputs are multiplied in full precision (input_precision="ieee"). Errors are at most 1e-5 in float32 (for scores up
    to about 10) and 2e-3 in float16, relative to the value or to the rms of its head if that is larger; 5e-3 where
    scores run to thousands.

    Cost: exactly context * HK * D elements are loaded of each cache (summed over the sequences): no slot twice, none
    for each query head, none behind the context. Of q at most splits times its size is loaded. The result is stored
    once, and besides it at most B * H * splits * (D + 1) float32. Two tl.dot a tile. float16 compiles for sm_90 with
    at most 128 bytes of spilled registers per thread.
    Sources: arXiv:2309.06180 (paging), arXiv:2511.11581 (a Triton kernel like this one, step by step).
    """
    ### BEGIN SOLUTION
    (B, H, D), (block_size, HK) = q.shape, k_cache.shape[1:3]
    partial = torch.empty((B, H, splits, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, splits), dtype=torch.float32, device=q.device)
    out = torch.empty((B, H, D), dtype=q.dtype, device=q.device)
    paged_decode_kernel[(B, HK, splits)](
        q, k_cache, v_cache, block_tables, context_lens, partial, lse, D**-0.5 if scale is None else scale, HK, H // HK,
        q.stride(0), q.stride(1), block_tables.stride(0), D=D, BLOCK_SIZE=block_size,
        BLOCK_G=max(16, triton.next_power_of_2(H // HK)), BLOCK_N=64 if q.element_size() == 2 else 32,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    combine_kernel[(B * H,)](partial, lse, out, splits, D=D, BLOCK_S=triton.next_power_of_2(splits), num_warps=4)
    return out
    ### END SOLUTION
