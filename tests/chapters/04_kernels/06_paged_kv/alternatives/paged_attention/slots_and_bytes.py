"""Slot numbers instead of blocks, bytes instead of numbers, scales moved out of the cache, softmax by hand."""

import torch


def _rows(cache):
    """One row of bytes for each slot."""
    blocks, block_size, heads, dim = cache.shape
    return cache.view(torch.uint8).view(blocks * block_size, heads * dim * cache.element_size())


def write_kv(k, v, k_cache, v_cache, slots):
    keep = torch.nonzero(slots != -1).squeeze(1)
    at = torch.index_select(slots, 0, keep)
    for new, cache in ((k, k_cache), (v, v_cache)):
        new = new.contiguous()
        rows = new.view(torch.uint8).view(new.shape[0], cache.shape[2] * cache.shape[3] * cache.element_size())
        _rows(cache).index_copy_(0, at, rows[keep])


def _one(q, keys, values, scale):
    """q (n, HK, G, D), keys and values (context, HK, D), all float32: bmm over KV heads."""
    n, HK, G, D = q.shape
    context = keys.shape[0]
    q = q.permute(1, 0, 2, 3).reshape(HK, n * G, D)
    scores = torch.bmm(q, keys.permute(1, 2, 0)) * scale
    scores = scores.view(HK, n, G, context)
    hidden = torch.ones(n, context, dtype=torch.bool).triu(context - n + 1)
    scores.masked_fill_(hidden[:, None], float("-inf"))
    scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_()
    total = scores.sum(dim=-1, keepdim=True)
    out = torch.bmm(scores.view(HK, n * G, context), values.transpose(0, 1)).view(HK, n, G, D)
    return (out / total).permute(1, 0, 2, 3)


def paged_attention(
    q, k_cache, v_cache, block_tables, context_lens, query_start, *, scale=None, k_scale=None, v_scale=None
):
    total, H, D = q.shape
    _, block_size, HK, _ = k_cache.shape
    if scale is None:
        scale = 1 / D**0.5
    queries = q.float().reshape(total, HK, H // HK, D)
    if k_scale is not None:
        queries = queries * k_scale.view(1, HK, 1, 1)
    parts = [q.new_zeros(0, HK, H // HK, D, dtype=torch.float32)]
    for b in range(len(context_lens)):
        first, last, context = int(query_start[b]), int(query_start[b + 1]), int(context_lens[b])
        if first == last:
            continue
        position = torch.arange(context)
        slots = block_tables[b].long()[position // block_size] * block_size + position % block_size
        keys = _rows(k_cache)[slots].view(k_cache.dtype).view(context, HK, D).to(torch.float32)
        values = _rows(v_cache)[slots].view(v_cache.dtype).view(context, HK, D).to(torch.float32)
        parts.append(_one(queries[first:last], keys, values, scale))
    out = torch.cat(parts)
    if v_scale is not None:
        out = out * v_scale.view(1, HK, 1, 1)
    return out.reshape(total, H, D).to(q.dtype)


def quantize_kv(x):
    wide = x.to(torch.float32)
    dims = [i for i in range(x.ndim) if i != x.ndim - 2]
    largest = wide.abs().amax(dim=dims)
    scale = largest / torch.finfo(torch.float8_e4m3fn).max
    scale[scale == 0] = 1.0
    return (wide * scale.reciprocal().unsqueeze(-1)).to(torch.float8_e4m3fn), scale
