"""Wilson by centre and half width, beta.ppf, one vectorised binom.pmf, bootstrap with np.delete via a mask."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta, binom, norm


def _check(k, n):
    if n < 1 or not 0 <= k <= n:
        raise ValueError("0 <= successes <= n and n >= 1")


def wilson(successes, n, confidence=0.95):
    _check(successes, n)
    z = float(norm.ppf((1 + confidence) / 2))
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def clopper_pearson(successes, n, confidence=0.95):
    _check(successes, n)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    return low, high


def coverage(interval, p, n):
    total = 0.0
    pmf = binom.pmf(np.arange(n + 1), n, p)
    for k in range(n + 1):
        low, high = interval(k, n)
        if low <= p <= high:
            total += pmf[k]
    return float(total)


def bootstrap(x, statistic, rng, *, resamples=2000, confidence=0.95, method="bca"):
    if method not in ("percentile", "bca"):
        raise ValueError(method)
    x = np.asarray(x)
    n = len(x)
    boot = np.asarray(statistic(x[rng.integers(0, n, (resamples, n))]))
    q = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if (boot == boot[0]).all():
        return float(boot[0]), float(boot[0])
    if method == "bca":
        here = statistic(x)
        share = np.mean(boot < here) + 0.5 * np.mean(boot == here)
        edge = 1 / (2 * resamples)
        z0 = norm.ppf(np.clip(share, edge, 1 - edge))
        loo = statistic(np.broadcast_to(x, (n, n))[~np.eye(n, dtype=bool)].reshape(n, n - 1))
        a = 0.0
        if np.ptp(loo) > 0:
            d = np.mean(loo) - loo
            d = d / np.abs(d).max()
            a = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
        z = z0 + norm.ppf(q)
        q = norm.cdf(z0 + z / (1 - a * z))
    low, high = np.quantile(boot, q)
    return float(low), float(high)


def cluster_bootstrap_mean(scores, clusters, rng, *, resamples=2000, confidence=0.95):
    if len(scores) != len(clusters):
        raise ValueError("lengths differ")
    labels = sorted(set(clusters))
    number = {c: i for i, c in enumerate(labels)}
    ids = [number[c] for c in clusters]
    sums = np.bincount(ids, weights=np.asarray(scores, dtype=float))
    sizes = np.bincount(ids)
    pick = rng.integers(0, len(labels), (resamples, len(labels)))
    means = sums[pick].sum(1) / sizes[pick].sum(1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
