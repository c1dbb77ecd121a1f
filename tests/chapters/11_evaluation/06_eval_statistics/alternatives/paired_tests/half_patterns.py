"""Like a textbook: scipy.stats.t.interval, np.cov, binom pmf sums; only half of the patterns (the first sign is +)."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def paired_difference(a, b, clusters=None, *, confidence=0.95):
    a = np.array(a, dtype=float)
    b = np.array(b, dtype=float)
    if a.shape != b.shape:
        raise ValueError("a and b differ in length")
    n = a.size
    if n < 2:
        raise ValueError("too few questions")
    if clusters is None:
        clusters = range(n)  # every question is a cluster of its own: the same formula
    if len(clusters) != n:
        raise ValueError("clusters differ in length")
    index = {}
    ids = [index.setdefault(c, len(index)) for c in clusters]
    G = len(index)
    if G < 2:
        raise ValueError("too few clusters")
    d = a - b
    diff = d.mean()
    e = np.bincount(ids, weights=d - diff, minlength=G)
    se = math.sqrt(G / (G - 1) * float(e @ e)) / n
    if np.all(d == d[0]):
        diff, se = d[0], 0.0
    q = stats.t(G - 1)
    t = q.ppf((1 + confidence) / 2)
    p = (1.0 if diff == 0 else 0.0) if se == 0 else 2 * q.cdf(-abs(diff) / se)
    cov = np.cov(a, b)
    ok = np.ptp(a) > 0 and np.ptp(b) > 0
    return {
        "diff": float(diff),
        "se": float(se),
        "ci": (float(diff - t * se), float(diff + t * se)),
        "p": float(p),
        "unpaired_se": float(np.sqrt((cov[0, 0] + cov[1, 1]) / n)),
        "correlation": float(cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])) if ok else float("nan"),
    }


def mcnemar(a, b, *, mid_p=False):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ValueError("lengths")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise ValueError("scores")
    a, b = a.astype(int), b.astype(int)
    g, l = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    if g + l == 0:
        return g, l, 1.0
    pmf = stats.binom.pmf(np.arange(min(g, l) + 1), g + l, 0.5)
    p = 2 * pmf.sum() - (pmf[-1] if mid_p else 0)
    return g, l, float(min(1.0, p))


def sign_flip_test(d, *, rng=None, resamples=9999, exact_limit=16):
    d = np.asarray(d, dtype=float)
    d = d[np.nonzero(d)]
    m = len(d)
    if m == 0:
        return 1.0
    T, tol = abs(d.sum()), 1e-12 * abs(d).sum()
    if m <= exact_limit:
        sums = d[:1]
        for x in d[1:]:
            sums = (sums[:, None] + np.array([x, -x])).ravel()
        return float((abs(sums) >= T - tol).mean())
    if rng is None:
        raise ValueError("rng")
    count = 0
    for row in 2 * rng.integers(0, 2, (resamples, m)) - 1:
        count += abs(np.dot(row, d)) >= T - tol
    return float((1 + count) / (1 + resamples))
