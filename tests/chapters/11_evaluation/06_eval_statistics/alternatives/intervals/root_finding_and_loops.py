"""Wilson by np.roots-like quadratic, Clopper-Pearson by brentq on binom.sf/cdf, per-row loops for clusters."""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

N = NormalDist()


def wilson(successes, n, confidence=0.95):
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError
    z2 = N.inv_cdf((1 + confidence) / 2) ** 2
    # (n + z2) q^2 - (2 k + z2) q + k^2 / n = 0
    a, b, c = n + z2, -(2 * successes + z2), successes**2 / n
    big = (-b + sqrt(b * b - 4 * a * c)) / 2
    return c / big, 1.0 if successes == n else min(1.0, big / a)


def clopper_pearson(successes, n, confidence=0.95):
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError
    t = (1 - confidence) / 2
    lo, hi = 0.0, 1.0
    if successes > 0:
        lo = brentq(lambda q: binom.sf(successes - 1, n, q) - t, 0, 1, xtol=1e-14)
    if successes < n:
        hi = brentq(lambda q: binom.cdf(successes, n, q) - t, 0, 1, xtol=1e-14)
    return lo, hi


def coverage(interval, p, n):
    def inside(k):
        low, high = interval(k, n)
        return low <= p <= high

    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if inside(k))


def bootstrap(x, statistic, rng, *, resamples=2000, confidence=0.95, method="bca"):
    n = len(x)
    if method == "percentile":
        levels = lambda values: [(1 - confidence) / 2, (1 + confidence) / 2]
    elif method == "bca":
        theta = float(statistic(x))
        jack = np.asarray(statistic(np.stack([np.delete(x, i) for i in range(n)])), dtype=float)

        def levels(values):
            share = ((values < theta).sum() + (values == theta).sum() / 2) / resamples
            z0 = N.inv_cdf(min(max(share, 0.5 / resamples), 1 - 0.5 / resamples))
            d = jack.mean() - jack
            a = 0.0 if np.all(jack == jack[0]) else (d**3).sum() / (6 * (d**2).sum() ** 1.5)
            zs = (z0 + N.inv_cdf((1 - confidence) / 2), z0 + N.inv_cdf((1 + confidence) / 2))
            return [N.cdf(z0 + z / (1 - a * z)) for z in zs]

    else:
        raise ValueError(f"unknown method {method!r}")
    values = np.asarray(statistic(x[rng.integers(0, n, (resamples, n))]), dtype=float)
    if values.min() == values.max():
        return float(values[0]), float(values[0])
    lo, hi = levels(values)
    return float(np.quantile(values, lo)), float(np.quantile(values, hi))


def cluster_bootstrap_mean(scores, clusters, rng, *, resamples=2000, confidence=0.95):
    if len(scores) != len(clusters):
        raise ValueError
    names = sorted(set(clusters))
    parts = [np.array([float(s) for s, c in zip(scores, clusters) if c == name]) for name in names]
    means = []
    for row in rng.integers(0, len(names), (resamples, len(names))):
        means.append(np.concatenate([parts[g] for g in row]).mean())
    lo, hi = np.percentile(means, [50 * (1 - confidence), 50 * (1 + confidence)])
    return float(lo), float(hi)
