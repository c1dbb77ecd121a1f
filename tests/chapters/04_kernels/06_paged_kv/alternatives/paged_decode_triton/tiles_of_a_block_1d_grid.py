"""One tile = one block (two of 8), contiguous tiles per split on a 1-D grid; combine online in chunks of 16 splits."""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention, torch.gather, torch.index_select,
# torch.softmax, torch.matmul.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _split_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lens_ptr,
    out_ptr,
    lse_ptr,
    stride_qb,
    stride_qh,
    stride_table,
    scale,
    splits,
    HK: tl.constexpr,
    G: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    pid = tl.program_id(0)
    s = pid % splits
    g = (pid // splits) % HK
    b = (pid // splits // HK).to(tl.int64)
    context = tl.load(lens_ptr + b)
    tiles = tl.cdiv(context, TILE)
    share = tl.cdiv(tiles, splits)
    first = s * share
    last = tl.minimum(first + share, tiles)

    row = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    head = g * G + row
    q = tl.load(
        q_ptr + b * stride_qb + head[:, None].to(tl.int64) * stride_qh + d[None, :], mask=(row < G)[:, None], other=0.0
    )
    m = tl.full([ROWS], float("-inf"), tl.float32)
    z = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, D], tl.float32)
    for t in range(first, last):
        pos = t * TILE + tl.arange(0, TILE)
        ok = pos < context
        block = tl.load(table_ptr + b * stride_table + pos // BLOCK, mask=ok, other=0).to(tl.int64)
        slot = block * BLOCK + pos % BLOCK
        at = (slot * HK + g)[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=ok[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=ok[:, None], other=0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        x = tl.where(ok[None, :], x, float("-inf"))
        new = tl.maximum(m, tl.max(x, 1))
        p = tl.exp(x - new[:, None])
        shrink = tl.exp(m - new)
        z = z * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        m = new
    real = row < G
    where = (b * HK * G + head) * splits + s
    some = z > 0
    tl.store(out_ptr + where[:, None] * D + d[None, :], acc / tl.where(some, z, 1.0)[:, None], mask=real[:, None])
    tl.store(lse_ptr + where, tl.where(some, m + tl.log(tl.where(some, z, 1.0)), float("-inf")), mask=real)


@triton.jit
def _combine_kernel(part_ptr, lse_ptr, out_ptr, splits, D: tl.constexpr, CHUNK: tl.constexpr):
    bh = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D)
    m = float("-inf")
    z = 0.0
    acc = tl.zeros([D], tl.float32)
    for start in range(0, splits, CHUNK):
        s = start + tl.arange(0, CHUNK)
        lse = tl.load(lse_ptr + bh * splits + s, mask=s < splits, other=float("-inf"))
        part = tl.load(
            part_ptr + (bh * splits + s)[:, None] * D + d[None, :], mask=(lse > float("-inf"))[:, None], other=0.0
        )
        new = tl.maximum(m, tl.max(lse, 0))
        base = tl.where(new > float("-inf"), new, 0.0)
        w = tl.exp(lse - base)
        shrink = tl.exp(m - base)
        z = z * shrink + tl.sum(w, 0)
        acc = acc * shrink + tl.sum(w[:, None] * part, 0)
        m = new
    out = acc / tl.where(z > 0, z, 1.0)
    tl.store(out_ptr + bh * D + d, out.to(out_ptr.dtype.element_ty))


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
    _, block, HK, _ = k_cache.shape
    G = H // HK
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, D), dtype=q.dtype, device=q.device)
    part = torch.empty((B, H, splits, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, splits), dtype=torch.float32, device=q.device)
    _split_kernel[(B * HK * splits,)](
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
        float(scale),
        splits,
        HK=HK,
        G=G,
        ROWS=max(16, triton.next_power_of_2(G)),
        D=D,
        BLOCK=block,
        TILE=max(16, block),
    )
    _combine_kernel[(B * H,)](part, lse, out, splits, D=D, CHUNK=16)
    return out
