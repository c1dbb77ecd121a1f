"""Writing keys and values to pages, and attending over them: what lies between the block manager and the model.

The cache of a layer is two tensors of `blocks` blocks with `block_size` slots each. Which block holds which tokens is
known to the block tables alone: position p of a sequence with the table `table` lies in block table[p // block_size],
at offset p % block_size. Its slot is the number table[p // block_size] * block_size + p % block_size.
"""

from __future__ import annotations

import torch
from torch import Tensor

E4M3_MAX = 448.0  # the largest number of torch.float8_e4m3fn


def write_kv(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Stores the keys and values of T tokens at their slots, in place.

    k, v              (T, HK, D), any strides, in the caches' dtype (float32, float16, bfloat16 or float8_e4m3fn); T may
                      be 0
    k_cache, v_cache  (blocks, block_size, HK, D), contiguous: modified, and nothing is returned
    slots             (T,) int64: token t goes to offset slots[t] % block_size of block slots[t] // block_size. No slot
                      occurs twice, except -1: such a token is padding, and is not written anywhere.

    All other slots keep every bit.

    Cost: the number of torch operations does not depend on T, and no tensor made on the way takes more memory than k
    and v together.
    """
    ### BEGIN SOLUTION
    real = slots >= 0
    slots = slots[real]
    k_cache.view(-1, *k_cache.shape[2:])[slots] = k[real]
    v_cache.view(-1, *v_cache.shape[2:])[slots] = v[real]
    ### END SOLUTION


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    query_start: Tensor,
    *,
    scale: float | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> Tensor:
    """Attention of a mixed batch, prefill chunks and decodes, over a paged cache (arXiv:2309.06180).

    q             (total, H, D) float32, float16 or bfloat16, any strides: the new queries of B sequences, one sequence
                  after another
    query_start   (B + 1,) int32, from 0 to total: the queries of sequence b are the rows query_start[b] up to (not
                  including) query_start[b + 1] (vLLM's query_start_loc). Their number q_len is 1 in decode, many in
                  prefill, and 0 for a sequence that sits this step out: it has no rows in the result.
    context_lens  (B,) int32: tokens of each sequence whose keys and values are in the cache, those of the new queries
                  included: q_len <= context_lens[b]. 0 is possible, with q_len = 0.
    block_tables  (B, W) int32, any strides: row b lists the blocks of sequence b in order. Only its first
                  ceil(context_lens[b] / block_size) entries count; the rest is padding of any value (-1, 10**9), and no
                  block's number. Sequences may share blocks.
    k_cache,      (blocks, block_size, HK, D), contiguous. Slots that hold no token of a sequence may hold anything, NaN
    v_cache       included, also those behind the context in a sequence's own last block. In q's dtype without
                  scales, float8_e4m3fn with scales.
    k_scale,      (HK,) float32, both or neither: value = stored number * scale of its KV head
    v_scale
    scale         factor on q . k; None means D ** -0.5, any other number is used as it is

    A sequence's queries are the last q_len positions of its context: query t (counted from 0 within the sequence) sees
    the positions 0 ... context_lens[b] - q_len + t. H is a multiple of HK; query head h reads KV head h // (H // HK).

    Returns (total, H, D) in q's dtype. Everything is widened to float32 first; scores (of any size), softmax and
    weighted sum stay in float32, and the result is rounded once.

    Cost, for each sequence on its own: at most 100 torch operations a sequence (views count) and 100 besides, whatever
    the lengths. No tensor takes more memory than the largest of H * q_len * padded, 2 * padded * HK * D (both for any
    sequence; padded is the context rounded up to whole blocks) and total * H * D numbers of float32: keys are not
    repeated for every query head, and blocks that hold no context are not gathered.
    """
    ### BEGIN SOLUTION
    H, D = q.shape[1:]
    block_size, HK = k_cache.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    out = torch.empty_like(q)
    starts, contexts = query_start.tolist(), context_lens.tolist()
    for b, context in enumerate(contexts):
        rows = slice(starts[b], starts[b + 1])
        q_len = starts[b + 1] - starts[b]
        if q_len == 0:
            continue
        blocks = block_tables[b, : -(-context // block_size)]
        # Cut at the context before any arithmetic: behind it lies anything, and 0 * NaN is NaN.
        k = k_cache.index_select(0, blocks).flatten(0, 1)[:context].float()  # (context, HK, D)
        v = v_cache.index_select(0, blocks).flatten(0, 1)[:context].float()
        if k_scale is not None and v_scale is not None:
            k, v = k * k_scale[:, None], v * v_scale[:, None]

        # The H // HK query heads of a KV head are an axis of their own, so that one copy of the keys serves them all.
        grouped = q[rows].float().unflatten(1, (HK, H // HK))  # (q_len, HK, G, D)
        scores = torch.einsum("qhgd,khd->hgqk", grouped * scale, k)
        position = torch.arange(context - q_len, context)[:, None]
        scores = scores.masked_fill(torch.arange(context) > position, -torch.inf)
        out[rows] = torch.einsum("hgqk,khd->qhgd", scores.softmax(-1), v).flatten(1, 2).to(q.dtype)
    return out
    ### END SOLUTION


def quantize_kv(x: Tensor) -> tuple[Tensor, Tensor]:
    """Keys or values in one byte each, with one scale per KV head: x is about stored * scale[:, None].

    x: (..., HK, D), any float dtype, any leading dimensions, finite; no dimension is 0.

    Returns (stored, scale):
        scale   (HK,) float32: the largest |x| of the head (over all leading dimensions and D) divided by 448, the
                largest number of E4M3; 1 for a head of zeros
        stored  x's shape, float8_e4m3fn: x / scale, computed in float32, rounded to the nearest. So it errs by at most
                1/16 of the value or, where that is smaller than 2 ** -6 * scale, by 2 ** -10 * scale.
    """
    ### BEGIN SOLUTION
    x = x.float()
    amax = x.abs().amax(-1).reshape(-1, x.shape[-2]).amax(0)
    scale = torch.where(amax > 0, amax / E4M3_MAX, 1.0)
    return (x / scale[:, None]).to(torch.float8_e4m3fn), scale
    ### END SOLUTION
