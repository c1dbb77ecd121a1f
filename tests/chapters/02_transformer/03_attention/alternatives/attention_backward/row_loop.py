"""Loops over batch indices and query rows; each row slices the keys that it may see, so there is no mask at all."""

from __future__ import annotations

import numpy as np


def softmax_backward(p, dp):
    ds = np.empty(np.broadcast_shapes(p.shape, dp.shape))
    for ix in np.ndindex(*p.shape[:-1]):
        ds[ix] = p[ix] * (dp[ix] - p[ix] @ dp[ix])
    return ds


def _seen(i, lq, lk, causal):
    return max(0, i + 1 + lk - lq) if causal else lk


def attention_forward(q, k, v, causal=False, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    lq, lk = q.shape[-2], k.shape[-2]
    o = np.zeros(q.shape[:-1] + v.shape[-1:])
    lse = np.full(q.shape[:-1], -np.inf)
    for b in np.ndindex(*q.shape[:-2]):
        for i in range(lq):
            n = _seen(i, lq, lk, causal)
            if n:
                s = scale * (k[b][:n] @ q[b][i])
                lse[b + (i,)] = s.max() + np.log(np.exp(s - s.max()).sum())
                o[b + (i,)] = np.exp(s - lse[b + (i,)]) @ v[b][:n]
    return o, lse


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    if scale is None:
        scale = q.shape[-1] ** -0.5
    lq, lk = q.shape[-2], k.shape[-2]
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b in np.ndindex(*q.shape[:-2]):
        for i in range(lq):
            n = _seen(i, lq, lk, causal)
            if n == 0 or lse[b + (i,)] == -np.inf:
                continue
            kk, vv, qi, g = k[b][:n], v[b][:n], q[b][i], do[b][i]
            p = np.exp(scale * (kk @ qi) - lse[b + (i,)])
            ds = p * (vv @ g - g @ o[b][i])
            dv[b][:n] += np.outer(p, g)
            dk[b][:n] += scale * np.outer(ds, qi)
            dq[b][i] = scale * (ds @ kk)
    return dq, dk, dv
