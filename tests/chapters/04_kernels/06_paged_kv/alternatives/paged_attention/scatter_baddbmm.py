"""scatter_ on integer views with an expanded index; baddbmm with a -inf bias and alpha=scale, rows ordered query-major."""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention.

from __future__ import annotations

import math

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

    Cost: the number of torch operations does not depend on T, and no tensor made on the way takes more memory than k and
    v together.
    """
    size = k_cache.shape[0] * k_cache.shape[1]
    good = (slots >= 0).nonzero()[:, 0]
    index = slots[good].view(-1, 1, 1).expand(-1, k.shape[1], k.shape[2])
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}[k.element_size()]  # floats would lose NaN payloads
    for source, cache in ((k, k_cache), (v, v_cache)):
        source = source.view(whole).index_select(0, good)
        cache.view(whole).view(size, *k.shape[1:]).scatter_(0, index, source)


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
    total, H, D = q.shape
    HK = k_cache.shape[2]
    page = k_cache.shape[1]
    if scale is None:
        scale = D**-0.5
    one_byte = k_cache.element_size() == 1
    results = []
    for b, n in enumerate(context_lens.tolist()):
        queries = q[query_start[b] : query_start[b + 1]].float()
        m = queries.shape[0]
        if m == 0:
            continue
        table = block_tables[b][: (n + page - 1) // page]
        both = []
        for cache, factor in ((k_cache, k_scale), (v_cache, v_scale)):
            raw = cache.view(torch.int8) if one_byte else cache
            x = torch.index_select(raw, 0, table).view(cache.dtype).float().view(-1, HK, D)[:n]
            both.append(x if factor is None else torch.mul(x, factor[None, :, None]))
        keys, values = both
        queries = (
            queries.reshape(m, HK, -1, D).transpose(0, 1).reshape(HK, -1, D)
        )  # rows: query, then head of the group
        last = torch.arange(n - m, n, device=q.device).repeat_interleave(H // HK)
        bias = torch.zeros(len(last), n, device=q.device)
        bias[torch.arange(n, device=q.device) > last[:, None]] = -math.inf
        scores = torch.baddbmm(bias.expand(HK, -1, -1), queries, keys.permute(1, 2, 0), alpha=scale)
        out = scores.softmax(dim=2).bmm(values.transpose(0, 1))
        results.append(out.view(HK, m, -1, D).transpose(0, 1).reshape(m, H, D))
    if not results:
        return torch.zeros_like(q)
    return torch.cat(results).to(q.dtype)


def quantize_kv(x: Tensor) -> tuple[Tensor, Tensor]:
    """Keys or values in one byte each, with one scale per KV head: x is about stored * scale[:, None].

    x: (..., HK, D), any float dtype, any leading dimensions, finite; no dimension is 0.

    Returns (stored, scale):
        scale   (HK,) float32: the largest |x| of the head (over all leading dimensions and D) divided by 448, the
                largest number of E4M3; 1 for a head of zeros
        stored  x's shape, float8_e4m3fn: x / scale, computed in float32, rounded to the nearest. So it errs by at most
                1/16 of the value or, where that is smaller than 2 ** -6 * scale, by 2 ** -10 * scale.
    """
    flat = x.reshape(-1, *x.shape[-2:]).to(torch.float)
    amax = torch.linalg.vector_norm(flat, ord=float("inf"), dim=(0, 2))
    scale = amax / E4M3_MAX
    scale = scale + (amax == 0)
    return x.to(torch.float).div(scale.unsqueeze(1)).to(torch.float8_e4m3fn), scale
