"""Newton with step halving on per-pair sums, H + J/m for the pseudo-inverse, connectivity by scipy.sparse.csgraph."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, log_expit
from scipy.stats import norm


@dataclass(frozen=True)
class Ratings:
    names: tuple[str, ...]
    rating: np.ndarray
    covariance: np.ndarray


def _parse(battles):
    if len(battles) == 0:
        raise ValueError("no battles")
    names = tuple(sorted({x for a, b, _ in battles for x in (a, b)}))
    num = {x: i for i, x in enumerate(names)}
    a = np.array([num[t[0]] for t in battles])
    b = np.array([num[t[1]] for t in battles])
    s = np.array([t[2] for t in battles], dtype=float)
    if (a == b).any():
        raise ValueError("a model against itself")
    if not ((s >= 0) & (s <= 1)).all():
        raise ValueError("score outside [0, 1]")
    return names, a, b, s


def _theta(m, a, b, s):
    """natural ratings, average 0; ValueError if there is no finite optimum"""
    edge = np.zeros((m, m))
    edge[a[s > 0], b[s > 0]] = 1
    edge[b[s < 1], a[s < 1]] = 1
    if connected_components(edge, directed=True, connection="strong")[0] != 1:
        raise ValueError("no finite optimum")
    W = np.zeros((m, m))
    np.add.at(W, (a, b), s)
    np.add.at(W, (b, a), 1 - s)
    N = W + W.T
    th = np.zeros(m)
    ll = lambda t: (W * log_expit(t[:, None] - t[None])).sum()
    for _ in range(500):
        D = th[:, None] - th[None]
        P, Q = expit(D), expit(-D)
        grad = (W * Q - W.T * P).sum(1)
        F = N * P * Q
        H = np.diag(F.sum(1)) - F
        step = np.linalg.solve(H + H.trace() / m / m, grad)
        step -= step.mean()
        f, here = 1.0, ll(th)
        while ll(th + f * step) < here and f > 1e-10 and np.abs(f * step).max() > 1e-9:
            f /= 2
        th = th + f * step
        if np.abs(f * step).max() < 1e-12:
            break
    return th - th.mean()


def fit_ratings(battles, *, robust=True, scale=400.0):
    names, a, b, s = _parse(battles)
    m = len(names)
    th = _theta(m, a, b, s)
    P, Q = expit(th[a] - th[b]), expit(th[b] - th[a])

    def laplacian(w):
        L = np.zeros((m, m))
        np.add.at(L, (a, a), w)
        np.add.at(L, (b, b), w)
        np.add.at(L, (a, b), -w)
        np.add.at(L, (b, a), -w)
        return L

    H = laplacian(P * Q)
    c = H.trace() / m
    J = np.full((m, m), 1 / m)
    V = np.linalg.inv(H + c * J) - J / c
    if robust:
        V = V @ laplacian((s - P) ** 2) @ V
    unit = scale / math.log(10)
    return Ratings(names, 1000 + unit * th, unit**2 * V)


def difference(r, a, b, confidence=0.95):
    i, j = r.names.index(a), r.names.index(b)
    if i == j:
        return 0.0, 0.0, 0.0, 0.0
    d = float(r.rating[i] - r.rating[j])
    se = math.sqrt(r.covariance[i, i] + r.covariance[j, j] - 2 * r.covariance[i, j])
    h = float(norm.ppf((1 + confidence) / 2)) * se
    return d, se, d - h, d + h


def rank_ranges(r, alpha=0.05):
    m = len(r.names)
    better, worse = [0] * m, [0] * m
    for i in range(m):
        for j in range(i + 1, m):
            d, se, _, _ = difference(r, r.names[i], r.names[j])
            if 2 * norm.sf(abs(d) / se) * (m * (m - 1) / 2) <= alpha:
                hi, lo = (i, j) if d > 0 else (j, i)
                better[lo] += 1
                worse[hi] += 1
    return [(1 + better[i], m - worse[i]) for i in range(m)]


def bootstrap_ratings(battles, rng, resamples=100):
    names, a, b, s = _parse(battles)
    m, n = len(names), len(battles)
    rows, skipped = [], 0
    for _ in range(resamples):
        i = rng.integers(0, n, n)
        try:
            rows.append(1000 + 400 / math.log(10) * _theta(m, a[i], b[i], s[i]))
        except ValueError:
            skipped += 1
    return np.array(rows).reshape(len(rows), m), skipped
