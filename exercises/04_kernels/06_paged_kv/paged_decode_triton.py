"""One decode step over a paged cache in Triton, each sequence's keys split over several programs.

As with every kernel: masks on all edges, float32 inside, programs independent of each other, and a wrapper that only
allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter tl.dot multiplies its
raw bits.
"""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention, torch.gather, torch.index_select,
# torch.softmax, torch.matmul.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
    raise NotImplementedError("4.6/paged_decode_triton: write paged_decode")
