"""Loops over the queries, each with the keys that it sees: no (Lq, Lk) array at all."""

import numpy as np


def softmax_backward(p, dp):
    return p * (dp - np.sum(p * dp, axis=-1)[..., np.newaxis])


def _rows(q, k, causal):
    lq, lk = q.shape[-2], k.shape[-2]
    for index in np.ndindex(*q.shape[:-1]):
        n = min(lk, index[-1] + 1 + lk - lq) if causal else lk
        if n > 0:
            yield index, (*index[:-1], slice(n))


def attention_forward(q, k, v, causal=False, scale=None):
    c = q.shape[-1] ** -0.5 if scale is None else scale
    o = np.zeros((*q.shape[:-1], v.shape[-1]))
    lse = np.full(q.shape[:-1], -np.inf)
    for i, js in _rows(q, k, causal):
        s = c * (k[js] @ q[i])
        lse[i] = s.max() + np.log(np.exp(s - s.max()).sum())
        o[i] = np.exp(s - lse[i]) @ v[js]
    return o, lse


def attention_backward(do, q, k, v, o, lse, causal=False, scale=None):
    c = q.shape[-1] ** -0.5 if scale is None else scale
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i, js in _rows(q, k, causal):
        p = np.exp(c * (k[js] @ q[i]) - lse[i])
        dv[js] += np.outer(p, do[i])
        ds = p * (v[js] @ do[i] - do[i] @ o[i])
        dq[i] = c * (ds @ k[js])
        dk[js] += c * np.outer(ds, q[i])
    return dq, dk, dv
