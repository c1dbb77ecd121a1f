"""Everything in float64 by einsum on q pre-scaled, values averaged with unnormalised exps, divided by the sum last."""

from __future__ import annotations

import numpy as np


def _unnormalised(q, k, mask, causal, scale):
    if scale is None:
        scale = 1 / np.sqrt(q.shape[-1])
    s = np.einsum("...id,...jd->...ij", q.astype(np.float64) * scale, k.astype(np.float64))
    bias = np.zeros(s.shape[-2:])
    if mask is not None:
        if mask.dtype == np.bool_:
            bias = bias + np.where(mask, 0.0, -np.inf)
        else:
            bias = bias + mask.astype(np.float64)
    if causal:
        i = np.arange(s.shape[-2])[:, None]
        j = np.arange(s.shape[-1])[None, :]
        bias = bias + np.where(j > i + s.shape[-1] - s.shape[-2], -np.inf, 0.0)
    s = s + bias
    top = np.maximum(s.max(-1, keepdims=True), np.finfo(np.float64).min)
    e = np.exp(s - top)
    return e, e.sum(-1, keepdims=True)


def attention(q, k, v, mask=None, causal=False, scale=None):
    e, z = _unnormalised(q, k, mask, causal, scale)
    o = np.einsum("...ij,...jd->...id", e, v.astype(np.float64))
    return np.divide(o, z, out=np.zeros_like(o), where=z > 0).astype(q.dtype)


def attention_weights(q, k, mask=None, causal=False, scale=None):
    e, z = _unnormalised(q, k, mask, causal, scale)
    return np.divide(e, z, out=np.zeros_like(e), where=z > 0).astype(q.dtype)
