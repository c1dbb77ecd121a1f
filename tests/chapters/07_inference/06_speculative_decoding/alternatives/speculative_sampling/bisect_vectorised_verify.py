"""Pure Python floats with itertools.accumulate and bisect; verify finds the first rejection vectorised with argmax; 1 - total variation."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import numpy as np


def f64(x):
    return np.asarray(x).astype(np.float64)


def inverse_cdf(weights, u):
    w = f64(weights).tolist()
    if min(w, default=0.0) < 0 or max(w, default=0.0) == 0:
        raise ValueError("bad weights")
    c = list(accumulate(w))
    i = bisect_right(c, u * c[-1])
    while i >= len(w) or w[i] == 0:
        i -= 1
    return i


def residual(p, q):
    p, q = f64(p), f64(q)
    gain = (p - q).clip(min=0)
    total = gain.sum()
    if total == 0:
        return p
    return gain / total


def verify(p, q, draft, u_accept, u_next):
    p = f64(p)
    k = len(draft)
    if k == 0:
        return 0, inverse_cdf(p[0], u_next)
    q = f64(q)
    rows = np.arange(k)
    draft = np.asarray(draft, dtype=np.int64)
    qx = q[rows, draft]
    ok = np.asarray(u_accept, dtype=np.float64) * qx < p[rows, draft]
    n = k if ok.all() else int(np.argmin(ok))
    if (qx[: n + 1] == 0).any():
        raise ValueError("a draft token that q cannot have drawn")
    weights = p[k] if n == k else residual(p[n], q[n])
    return n, inverse_cdf(weights, u_next)


def verify_candidates(p, q, candidates, u_accept, u_next):
    r, q = f64(p), f64(q)
    for i, (x, u) in enumerate(zip(candidates, u_accept)):
        if u * q[x] < r[x]:
            return i, x
        r = residual(r, q)
    return None, inverse_cdf(r, u_next)


def acceptance_rate(p, q):
    return float(1.0 - 0.5 * np.abs(f64(p) - f64(q)).sum())


def induced_distribution(q, accept, fallback):
    kept = f64(q) * f64(accept)
    return kept + (1.0 - kept.sum()) * f64(fallback)
