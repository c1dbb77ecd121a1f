"""scipy.optimize.minimize (trust-exact) with gradient and Hessian, pseudo-inverse by eigh, strong connection by matrix powers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, ndtr, ndtri


@dataclass(frozen=True)
class Ratings:
    names: tuple[str, ...]
    rating: np.ndarray
    covariance: np.ndarray


def fit_ratings(battles, *, robust=True, scale=400.0):
    if not battles:
        raise ValueError("no battles")
    names = tuple(sorted({n for x in battles for n in x[:2]}))
    m = len(names)
    at = {n: i for i, n in enumerate(names)}
    for a, b, s in battles:
        if a == b or not (0 <= s <= 1):
            raise ValueError((a, b, s))
    kinds = Counter((at[a], at[b], float(s)) for a, b, s in battles)
    I, Jx, S, n = (np.array(t) for t in zip(*[(a, b, s, c) for (a, b, s), c in kinds.items()]))
    I, Jx = I.astype(int), Jx.astype(int)
    R = np.eye(m)
    R[I[S > 0], Jx[S > 0]] = 1
    R[Jx[S < 1], I[S < 1]] = 1
    for _ in range(max(1, math.ceil(math.log2(m)))):
        R = (R @ R > 0).astype(float)
    if not R.all():
        raise ValueError("not strongly connected")
    X = np.zeros((len(S), m))
    X[np.arange(len(S)), I] = 1
    X[np.arange(len(S)), Jx] = -1
    one = np.ones((m, m))

    def f(t):
        d = X @ t
        return -np.sum(n * (S * log_expit(d) + (1 - S) * log_expit(-d))) + 0.5 * t.sum() ** 2

    def g(t):
        return -X.T @ (n * (S - expit(X @ t))) + t.sum()

    def h(t):
        d = X @ t
        return X.T @ (X * (n * expit(d) * expit(-d))[:, None]) + one

    t = minimize(f, np.zeros(m), jac=g, hess=h, method="trust-exact", options={"gtol": 1e-9, "maxiter": 2000}).x
    for _ in range(5):
        t = t - np.linalg.solve(h(t), g(t))
    t = t - t.mean()
    H = h(t) - one
    val, vec = np.linalg.eigh(H)
    val, vec = val[1:], vec[:, 1:]
    V = vec / val @ vec.T
    if robust:
        V = V @ (X.T @ (X * (n * (S - expit(X @ t)) ** 2)[:, None])) @ V
    c = scale / np.log(10)
    return Ratings(names, 1000 + c * t, c * c * V)


def difference(r, a, b, confidence=0.95):
    i, j = r.names.index(a), r.names.index(b)
    d = r.rating[i] - r.rating[j]
    se = np.sqrt(r.covariance[i, i] + r.covariance[j, j] - 2 * r.covariance[i, j])
    z = ndtri((1 + confidence) / 2)
    return d, se, d - z * se, d + z * se


def rank_ranges(r, alpha=0.05):
    m = len(r.names)
    res = []
    for a in r.names:
        best, worst = 1, m
        for b in r.names:
            if a != b:
                d, se, _, _ = difference(r, a, b)
                if 2 * ndtr(-abs(d) / se) * m * (m - 1) / 2 <= alpha:
                    if d < 0:
                        best += 1
                    else:
                        worst -= 1
        res.append((best, worst))
    return res


def bootstrap_ratings(battles, rng, resamples=100):
    names = tuple(sorted({n for x in battles for n in x[:2]}))
    rows = []
    for _ in range(resamples):
        i = rng.integers(0, len(battles), len(battles))
        try:
            r = fit_ratings([battles[k] for k in i])
            if r.names == names:
                rows.append(r.rating)
        except ValueError:
            pass
    return np.array(rows).reshape(-1, len(names)), resamples - len(rows)
