"""Confidence intervals for proportions, and by the bootstrap for everything else.

SciPy's distributions (scipy.stats.norm, beta, binom, ...) are yours to use; scipy.stats.binomtest and
scipy.stats.bootstrap are what you write here.
"""

# Not allowed here, in any form: scipy.stats.bootstrap, scipy.stats.binomtest.

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the Wilson score interval, without continuity correction.

    With p = successes / n, all true shares q with |p - q| <= z sqrt(q (1 - q) / n), where z is the (1 + confidence) / 2
    quantile of the normal distribution: the error is that of the hypothesis, not that of the observed share. The two
    ends are the roots of a quadratic equation in q. 10 of 10 gives (0.7224672, 1.0). Accurate to 1e-9. ValueError
    unless 0 <= successes <= n and n >= 1.
    """
    raise NotImplementedError("11.6/intervals: write wilson")


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the exact two-sided interval.

    low is the share at which `successes` or more have the probability (1 - confidence) / 2, high the share at which
    `successes` or fewer have it: both are quantiles of beta distributions. low is exactly 0.0 for 0 successes, high
    exactly 1.0 for n. Accurate to 1e-9. ValueError unless 0 <= successes <= n and n >= 1.
    """
    raise NotImplementedError("11.6/intervals: write clopper_pearson")


def coverage(interval: Callable[[int, int], tuple[float, float]], p: float, n: int) -> float:
    """How often the interval is right: the exact probability that interval(k, n) contains p, over k ~ Bin(n, p).

    interval: any function like the two above, called with k = 0 ... n; its ends belong to it. 0 <= p <= 1, ends
    included.
    """
    raise NotImplementedError("11.6/intervals: write coverage")


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
    raise NotImplementedError("11.6/intervals: write bootstrap")


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
    raise NotImplementedError("11.6/intervals: write cluster_bootstrap_mean")
