"""One query at a time, over the keys that it may see; always in float64."""

import numpy as np


def _row(q, k, bias, scale):
    weights = np.zeros(len(k))
    seen = np.flatnonzero(bias > -np.inf)
    if len(seen):
        scores = k[seen] @ q * scale + bias[seen]
        e = np.exp(scores - max(scores))
        weights[seen] = e / sum(e)
    return weights


def attention_weights(q, k, mask=None, causal=False, scale=None):
    lq, d = q.shape[-2:]
    lk = k.shape[-2]
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    if scale is None:
        scale = 1 / np.sqrt(d)
    if mask is None:
        mask = np.zeros((lq, lk))
    elif mask.dtype == bool:
        mask = np.where(mask, 0.0, -np.inf)
    bias = np.array(np.broadcast_to(mask, (*leading, lq, lk)), dtype=np.float64)
    if causal:
        bias[..., np.triu(np.ones((lq, lk), dtype=bool), 1 + lk - lq)] = -np.inf
    wide_q = np.broadcast_to(q, (*leading, lq, d)).astype(np.float64)
    wide_k = np.broadcast_to(k, (*leading, lk, d)).astype(np.float64)
    weights = np.empty((*leading, lq, lk))
    for index in np.ndindex(*leading, lq):
        weights[index] = _row(wide_q[index], wide_k[index[:-1]], bias[index], scale)
    return weights.astype(q.dtype)


def attention(q, k, v, mask=None, causal=False, scale=None):
    weights = attention_weights(q, k, mask, causal, scale)
    return np.matmul(weights.astype(np.float64), v).astype(q.dtype)
