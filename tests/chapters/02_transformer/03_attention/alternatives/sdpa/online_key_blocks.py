"""attention by online softmax over key blocks of 5 (no full score matrix); attention_weights with v = identity."""

from __future__ import annotations

import numpy as np

BLOCK = 5


def _run(q, k, v, mask, causal, scale):
    work = np.float32 if q.dtype == np.float16 else q.dtype
    q, k, v = (t.astype(work) for t in (q, k, v))
    lq, lk = q.shape[-2], k.shape[-2]
    q = q * work_scalar(scale if scale is not None else q.shape[-1] ** -0.5, work)
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    m = np.full(lead + (lq, 1), -np.inf, work)
    z = np.zeros(lead + (lq, 1), work)
    acc = np.zeros(lead + (lq, v.shape[-1]), work)
    if mask is not None:
        mask = np.atleast_2d(mask)
        mask = np.broadcast_to(mask, mask.shape[:-2] + (lq, lk))
    for j in range(0, lk, BLOCK):
        s = q @ np.swapaxes(k[..., j : j + BLOCK, :], -1, -2)
        if mask is not None:
            b = mask[..., j : j + BLOCK]
            s = np.where(b, s, -np.inf) if b.dtype == bool else s + b
        if causal:
            cols = np.arange(j, j + s.shape[-1])
            s = np.where(cols[None] <= np.arange(lq)[:, None] + lk - lq, s, -np.inf)
        new = np.maximum(m, s.max(-1, keepdims=True))
        safe = np.where(np.isinf(new), 0, new)
        shrink = np.exp(m - safe)
        e = np.exp(s - safe)
        z = z * shrink + e.sum(-1, keepdims=True)
        acc = acc * shrink + e @ v[..., j : j + BLOCK, :]
        m = new
    return acc / np.where(z == 0, 1, z)


def work_scalar(x, dtype):
    return np.dtype(dtype).type(x)


def attention(q, k, v, mask=None, causal=False, scale=None):
    return _run(q, k, v, mask, causal, scale).astype(q.dtype)


def attention_weights(q, k, mask=None, causal=False, scale=None):
    return _run(q, k, np.eye(k.shape[-2], dtype=q.dtype), mask, causal, scale).astype(q.dtype)
