"""Flattened leading dims, FlashAttention tiles (3 queries x 4 keys) forward and backward; never a full matrix."""

from __future__ import annotations

import numpy as np

BQ, BK = 3, 4


def softmax_backward(p, dp):
    return p * dp - p * np.einsum("...i,...i->...", p, dp)[..., None]


def _tile(q, k, i, j, off, causal, scale):
    s = np.einsum("nid,njd->nij", q[:, i : i + BQ], k[:, j : j + BK]) * scale
    if causal:
        rows = np.arange(i, i + s.shape[1])[:, None] + off
        s[:, np.arange(j, j + s.shape[2])[None, :] > rows] = -np.inf
    return s


def attention_forward(q, k, v, causal=False, scale=None):
    lead, lq, lk = q.shape[:-2], q.shape[-2], k.shape[-2]
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    q, k, v = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    o = np.zeros((q.shape[0], lq, v.shape[-1]))
    lse = np.full((q.shape[0], lq), -np.inf)
    for i in range(0, lq, BQ):
        for j in range(0, lk, BK):
            s = _tile(q, k, i, j, lk - lq, causal, scale)
            old = lse[:, i : i + BQ]
            new = np.logaddexp(old, np.logaddexp.reduce(s, axis=-1))
            fin = np.where(np.isfinite(new), new, 0.0)
            o[:, i : i + BQ] = (
                o[:, i : i + BQ] * np.exp(old - fin)[..., None] + np.exp(s - fin[..., None]) @ v[:, j : j + BK]
            )
            lse[:, i : i + BQ] = new
    return o.reshape(*lead, lq, -1), lse.reshape(*lead, lq)


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    shapes = q.shape, k.shape, v.shape
    lq, lk = q.shape[-2], k.shape[-2]
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    do, q, k, v, o = (t.reshape(-1, *t.shape[-2:]) for t in (do, q, k, v, o))
    lse = lse.reshape(-1, lq)
    dead = np.isneginf(lse)
    do = do.copy()
    do[dead] = 0
    lse = np.where(dead, np.inf, lse)  # exp(S - inf) = 0
    delta = np.einsum("nid,nid->ni", do, o)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for j in range(0, lk, BK):
        for i in range(0, lq, BQ):
            p = np.exp(_tile(q, k, i, j, lk - lq, causal, scale) - lse[:, i : i + BQ, None])
            dv[:, j : j + BK] += p.swapaxes(1, 2) @ do[:, i : i + BQ]
            ds = p * (do[:, i : i + BQ] @ v[:, j : j + BK].swapaxes(1, 2) - delta[:, i : i + BQ, None])
            dq[:, i : i + BQ] += scale * ds @ k[:, j : j + BK]
            dk[:, j : j + BK] += scale * ds.swapaxes(1, 2) @ q[:, i : i + BQ]
    return dq.reshape(shapes[0]), dk.reshape(shapes[1]), dv.reshape(shapes[2])
