"""Confidence intervals for proportions, and by the bootstrap for everything else.

SciPy's distributions (scipy.stats.norm, beta, binom, ...) are yours to use; scipy.stats.binomtest and
scipy.stats.bootstrap are what you write here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np

### BEGIN SOLUTION
from scipy.stats import beta, binom, norm

### END SOLUTION


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the Wilson score interval, without continuity correction.

    With p = successes / n, all true shares q with |p - q| <= z sqrt(q (1 - q) / n), where z is the (1 + confidence) / 2
    quantile of the normal distribution: the error is that of the hypothesis, not that of the observed share. The two
    ends are the roots of a quadratic equation in q. 10 of 10 gives (0.7224672, 1.0). Accurate to 1e-9. ValueError
    unless 0 <= successes <= n and n >= 1.
    """
    ### BEGIN SOLUTION
    _check_counts(successes, n)
    z = float(norm.ppf((1 + confidence) / 2))
    p = successes / n
    shrink = 1 + z**2 / n
    centre = (p + z**2 / (2 * n)) / shrink
    half = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / shrink
    return centre - half, centre + half
    ### END SOLUTION


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the exact two-sided interval.

    low is the share at which `successes` or more have the probability (1 - confidence) / 2, high the share at which
    `successes` or fewer have it: both are quantiles of beta distributions. low is exactly 0.0 for 0 successes, high
    exactly 1.0 for n. Accurate to 1e-9. ValueError unless 0 <= successes <= n and n >= 1.
    """
    ### BEGIN SOLUTION
    _check_counts(successes, n)
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, successes, n - successes + 1)) if successes > 0 else 0.0
    high = float(beta.ppf(1 - tail, successes + 1, n - successes)) if successes < n else 1.0
    return low, high
    ### END SOLUTION


def coverage(interval: Callable[[int, int], tuple[float, float]], p: float, n: int) -> float:
    """How often the interval is right: the exact probability that interval(k, n) contains p, over k ~ Bin(n, p).

    interval: any function like the two above, called with k = 0 ... n; its ends belong to it. 0 <= p <= 1, ends
    included.
    """
    ### BEGIN SOLUTION
    successes = np.arange(n + 1)
    low, high = np.array([interval(int(k), n) for k in successes]).T
    contains = (low <= p) & (p <= high)
    return float(binom.pmf(successes, n, p)[contains].sum())
    ### END SOLUTION


def bootstrap(
    x: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    method: str = "bca",
) -> tuple[float, float]:
    """(low, high) of a bootstrap interval for statistic(x).

    x          (n,), n >= 2, ints or floats
    statistic  reduces the last axis: (..., n) -> (...). It is expensive: call it at most three times, on x, on all
               resamples at once and on all leave-one-out samples at once
    rng        one draw: the resamples are x[rng.integers(0, n, (resamples, n))]

    With q_- and q_+ = (1 - confidence) / 2 and (1 + confidence) / 2:

    "percentile"  the q_- and q_+ quantiles of the resampled values
    "bca"         their quantiles at the corrected levels Phi(z0 + (z0 + z) / (1 - a (z0 + z))), once with
                  z = Phi^-1(q_-), once with z = Phi^-1(q_+), where
                  z0 = Phi^-1(share of resampled values below statistic(x) + half the share equal to it), that sum kept
                       within [1 / (2 resamples), 1 - 1 / (2 resamples)] (bias);
                  a = sum d^3 / (6 (sum d^2)^1.5), d = mean of the n leave-one-out values minus each of them (skewness);
                       0 if all d are 0

    Quantiles by linear interpolation (np.quantile's default). If all resampled values are equal, both ends are that
    value, and no numpy warning is raised. Another method: ValueError.
    """
    ### BEGIN SOLUTION
    if method not in ("percentile", "bca"):
        raise ValueError(f"method {method!r}: it is 'percentile' or 'bca'")
    n = len(x)
    values = statistic(x[rng.integers(0, n, (resamples, n))])
    levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca" and values.min() < values.max():
        levels = _corrected(levels, values, statistic(x), statistic(_leave_one_out(x)))
    low, high = np.quantile(values, levels)
    return float(low), float(high)
    ### END SOLUTION


def cluster_bootstrap_mean(
    scores: Sequence[float],
    clusters: Sequence[Hashable],
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """(low, high) of the percentile interval of the mean of all scores, when whole clusters are resampled.

    clusters[i] is the label of score i; labels can be sorted. The G different labels in sorted order are numbered 0 ...
    G - 1, and row r of rng.integers(0, G, (resamples, G)), one draw, says which clusters make up resample r. The mean
    of a resample is the sum of all its scores / the number of all its scores (clusters may differ in size). Quantiles
    at (1 -+ confidence) / 2 by linear interpolation. ValueError if the lengths differ.
    """
    ### BEGIN SOLUTION
    if len(scores) != len(clusters):
        raise ValueError(f"{len(scores)} scores, but {len(clusters)} cluster labels")
    number = {label: g for g, label in enumerate(sorted(set(clusters)))}
    groups = len(number)
    member = [number[label] for label in clusters]
    totals = np.bincount(member, weights=scores, minlength=groups)
    sizes = np.bincount(member, minlength=groups)
    drawn = rng.integers(0, groups, (resamples, groups))
    means = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
    ### END SOLUTION


### BEGIN SOLUTION
def _check_counts(successes: int, n: int) -> None:
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError(f"{successes} successes of {n}: 0 <= successes <= n and n >= 1 must hold")


def _leave_one_out(x: np.ndarray) -> np.ndarray:
    """(n, n - 1): row i is x without its element i."""
    n = len(x)
    return np.tile(x, (n, 1))[~np.eye(n, dtype=bool)].reshape(n, n - 1)


def _corrected(levels: np.ndarray, values: np.ndarray, estimate: float, left_out: np.ndarray) -> np.ndarray:
    """BCa: the levels at which the quantiles are read instead."""
    below = np.mean(values < estimate) + np.mean(values == estimate) / 2
    smallest = 1 / (2 * len(values))
    z0 = norm.ppf(np.clip(below, smallest, 1 - smallest))
    d = left_out.mean() - left_out
    a = (d**3).sum() / (6 * (d**2).sum() ** 1.5) if d.any() else 0.0
    shifted = z0 + norm.ppf(levels)
    return norm.cdf(z0 + shifted / (1 - a * shifted))


### END SOLUTION
