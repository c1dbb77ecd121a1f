"""Scales q first, lets the empty rows become NaN quietly, and then zeroes them."""

import numpy as np


def attention_weights(q, k, mask=None, causal=False, scale=None):
    work = np.promote_types(q.dtype, np.float32)
    if scale is None:
        scale = q.shape[-1] ** -0.5
    s = np.einsum("...qd,...kd->...qk", q.astype(work) * work.type(scale), k.astype(work))
    lq, lk = s.shape[-2:]
    if mask is not None and mask.dtype == bool:
        s[~np.broadcast_to(mask, s.shape)] = -np.inf
    elif mask is not None:
        s += mask
    if causal:
        s = np.where(np.tri(lq, lk, lk - lq, dtype=bool), s, -np.inf)
    with np.errstate(invalid="ignore"):
        s = np.exp(s - s.max(-1)[..., None])
        s /= s.sum(-1)[..., None]
    s[np.isnan(s)] = 0
    return s.astype(work)


def attention(q, k, v, mask=None, causal=False, scale=None):
    weights = attention_weights(q, k, mask, causal, scale)
    return np.einsum("...qk,...kd->...qd", weights, v.astype(weights.dtype)).astype(q.dtype)
