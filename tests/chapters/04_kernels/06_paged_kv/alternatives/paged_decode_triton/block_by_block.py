"""One-dimensional grid, splits in whole blocks, 16 keys at a time; natural logarithms; sums and peaks beside the output."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _attend(Q, K, V, TABLE, LENGTHS, PART, scale, sq0, sq1, st, H, HK, S,
            D: tl.constexpr, BS: tl.constexpr, R: tl.constexpr, KEYS: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    s = pid % S
    hk = pid // S % HK
    b = pid // S // HK
    group = H // HK
    length = tl.load(LENGTHS + b)
    per_split = (length + S * KEYS - 1) // (S * KEYS) * KEYS
    low = s * per_split
    high = tl.minimum(low + per_split, length)
    r = tl.arange(0, R)
    h = hk * group + r
    dims = tl.arange(0, D)
    q = tl.load(Q + b * sq0 + h[:, None] * sq1 + dims[None, :], mask=r[:, None] < group, other=0)
    peak = tl.full((R,), -1e30, tl.float32)
    total = tl.zeros((R,), tl.float32)
    acc = tl.zeros((R, D), tl.float32)
    pos = low
    while pos < high:
        at = pos + tl.arange(0, KEYS)
        inside = at < high
        page = tl.load(TABLE + b * st + at // BS, inside, 0).to(tl.int64)
        offset = page * (BS * HK * D) + (at % BS) * (HK * D) + hk * D
        addresses = offset[:, None] + dims[None, :]
        keys = tl.load(K + addresses, inside[:, None], 0)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(inside[None, :], scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        old = tl.exp(peak - higher)
        values = tl.load(V + addresses, inside[:, None], 0)
        acc = acc * old[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        total = total * old + tl.sum(weights, axis=1)
        peak = higher
        pos += KEYS
    row = ((b * H + h) * S + s) * (D + 1)
    some = total > 0
    out = acc / tl.where(some, total, 1.0)[:, None]
    tl.store(PART + row[:, None] + dims[None, :], out, mask=r[:, None] < group)
    lse = tl.where(some, peak + tl.log(tl.where(some, total, 1.0)), -1e30)
    tl.store(PART + row + D, lse, mask=r < group)


@triton.jit
def _merge(PART, OUT, S, D: tl.constexpr):
    row = tl.program_id(0)
    dims = tl.arange(0, D)
    top = -1e30
    for s in range(S):
        top = tl.maximum(top, tl.load(PART + (row * S + s) * (D + 1) + D))
    weight = 0.0
    acc = tl.zeros((D,), tl.float32)
    for s in range(S):
        at = PART + (row * S + s) * (D + 1)
        w = tl.exp(tl.load(at + D) - top)
        weight += w
        acc += w * tl.load(at + dims)
    tl.store(OUT + row * D + dims, (acc / weight).to(OUT.dtype.element_ty))


def paged_decode(q, k_cache, v_cache, block_tables, context_lens, *, splits=4, scale=None):
    B, H, D = q.shape
    _, block_size, HK, _ = k_cache.shape
    if scale is None:
        scale = 1 / math.sqrt(D)
    part = q.new_empty(B * H * splits * (D + 1), dtype=torch.float32)
    out = torch.empty(B, H, D, dtype=q.dtype, device=q.device)
    rows = max(16, triton.next_power_of_2(H // HK))
    _attend[(B * HK * splits,)](
        q, k_cache, v_cache, block_tables, context_lens, part, scale, q.stride(0), q.stride(1), block_tables.stride(0),
        H, HK, splits, D=D, BS=block_size, R=rows, KEYS=max(16, block_size),
    )  # fmt: skip
    _merge[(B * H,)](part, out, splits, D=D)
    return out
