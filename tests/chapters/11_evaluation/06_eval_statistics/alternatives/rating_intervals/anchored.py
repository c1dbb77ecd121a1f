"""A logistic regression on battles with one model fixed, started by Zermelo's iteration; centred afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm

Battle = tuple[str, str, float]


@dataclass(frozen=True)
class Ratings:
    names: tuple[str, ...]
    rating: np.ndarray
    covariance: np.ndarray


def _reaches_all(edges):
    seen, todo = {0}, [0]
    while todo:
        for j in np.flatnonzero(edges[todo.pop()]):
            if j not in seen:
                seen.add(j)
                todo.append(j)
    return len(seen) == len(edges)


def fit_ratings(battles, *, robust=True, scale=400.0):
    names = sorted({x[0] for x in battles} | {x[1] for x in battles})
    m = len(names)
    if m < 2 or any(a == b or not 0 <= s <= 1 for a, b, s in battles):
        raise ValueError("battles")
    won = np.zeros((m, m))
    for a, b, s in battles:
        won[names.index(a), names.index(b)] += s
        won[names.index(b), names.index(a)] += 1 - s
    if not (_reaches_all(won > 0) and _reaches_all(won.T > 0)):
        raise ValueError("no finite optimum")
    games = won + won.T
    # Zermelo's iteration, which always goes uphill, then Newton with the first model fixed.
    strength = np.ones(m)
    for _ in range(100):
        strength = won.sum(1) / (games / (strength[:, None] + strength)).sum(1)
        strength /= np.exp(np.log(strength).mean())
    theta = np.log(strength) - np.log(strength[0])
    x = np.zeros((len(battles), m))
    s = np.array([battle[2] for battle in battles])
    for row, (a, b, _) in zip(x, battles, strict=True):
        row[names.index(a)] = 1
        row[names.index(b)] = -1
    x = x[:, 1:]
    for _ in range(30):
        p = expit(x @ theta[1:])
        information = x.T @ (x * (p * (1 - p))[:, None])
        theta[1:] += np.linalg.solve(information, x.T @ (s - p))
    bread = np.linalg.inv(information)
    meat = x.T @ (x * ((s - p) ** 2)[:, None])
    v = np.zeros((m, m))
    v[1:, 1:] = bread @ meat @ bread if robust else bread
    v = v - v.mean(0) - v.mean(1)[:, None] + v.mean()
    c = scale / math.log(10)
    return Ratings(tuple(names), 1000 + c * (theta - theta.mean()), c * c * v)


def difference(r, a, b, confidence=0.95):
    contrast = np.array([(name == a) - (name == b) * 1.0 for name in r.names])
    gap = contrast @ r.rating
    se = math.sqrt(max(0.0, contrast @ r.covariance @ contrast))
    z = norm.isf((1 - confidence) / 2)
    return gap, se, gap - z * se, gap + z * se


def rank_ranges(r, alpha=0.05):
    m = len(r.names)
    better, worse = [0] * m, [0] * m
    for i in range(m):
        for j in range(i):
            gap, se, _, _ = difference(r, r.names[i], r.names[j])
            if 2 * norm.cdf(-abs(gap) / se) * (m * (m - 1) // 2) <= alpha:
                up, down = (i, j) if gap > 0 else (j, i)
                better[down] += 1
                worse[up] += 1
    return [(1 + better[i], m - worse[i]) for i in range(m)]


def bootstrap_ratings(battles, rng, resamples=100):
    everyone = {name for battle in battles for name in battle[:2]}
    rows, skipped = [], 0
    for _ in range(resamples):
        sample = [battles[i] for i in rng.integers(0, len(battles), len(battles)).tolist()]
        if {name for battle in sample for name in battle[:2]} != everyone:
            skipped += 1
            continue
        try:
            rows.append(fit_ratings(sample).rating)
        except ValueError:
            skipped += 1
    return np.array(rows) if rows else np.empty((0, len(everyone))), skipped
