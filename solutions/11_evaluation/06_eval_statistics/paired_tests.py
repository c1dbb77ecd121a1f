"""Is model a better than model b? Three paired tests on the questions that both have answered.

SciPy's distributions (scipy.stats.t, binom, ...) are yours to use; scipy.stats.ttest_rel, ttest_1samp, binomtest and
permutation_test are what you write here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

### BEGIN SOLUTION
from scipy.stats import binom, t

### END SOLUTION


def paired_difference(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """The mean difference of two models on the same n questions, with error, interval and p-value.

    a[i] and b[i] are the scores of both models on question i; with d_i = a_i - b_i, a dict with exactly these keys:

        "diff"         mean of d
        "se"           its standard error: sample standard deviation of d (n - 1 in the denominator) / sqrt(n). If
                       clusters[i] names the cluster of question i: sqrt(G / (G - 1) * sum over the G clusters of (sum
                       of (d_i - diff) in the cluster)^2) / n
        "ci"           (low, high) = diff -+ t * se, t the (1 + confidence) / 2 quantile of Student's t distribution
                       with n - 1 degrees of freedom (G - 1 with clusters)
        "p"            two-sided p-value of "no difference", same distribution. If se is 0: 1.0 if diff is 0, else 0.0
        "unpaired_se"  sqrt(var(a) / n + var(b) / n), sample variances: the error bar if each model had had questions of
                       its own, for comparison (clusters do not enter)
        "correlation"  Pearson's, of a and b; nan if all scores of a or all scores of b are equal

    Scores are lists, tuples or 1-D arrays; cluster labels are any hashable values. No numpy warning is raised.
    ValueError if lengths differ, n < 2 or G < 2.
    """
    ### BEGIN SOLUTION
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    n = len(a)
    if len(b) != n or (clusters is not None and len(clusters) != n):
        raise ValueError("a, b and clusters must be of the same length")
    if n < 2:
        raise ValueError(f"{n} questions: a spread takes at least two")
    d = a - b
    diff = float(d.mean())
    if clusters is None:
        se, repetitions = float(d.std(ddof=1) / math.sqrt(n)), n
    else:
        se, repetitions = _clustered_error(d - diff, clusters)
    half = float(t.ppf((1 + confidence) / 2, repetitions - 1)) * se
    p = float(2 * t.sf(abs(diff) / se, repetitions - 1)) if se > 0.0 else float(diff == 0.0)
    constant = (a == a[0]).all() or (b == b[0]).all()
    return {
        "diff": diff,
        "se": se,
        "ci": (diff - half, diff + half),
        "p": p,
        "unpaired_se": math.sqrt(a.var(ddof=1) / n + b.var(ddof=1) / n),
        "correlation": math.nan if constant else float(np.corrcoef(a, b)[0, 1]),
    }
    ### END SOLUTION


def mcnemar(a: Sequence[int], b: Sequence[int], *, mid_p: bool = False) -> tuple[int, int, float]:
    """McNemar's exact test for 0/1 scores: (gains, losses, p).

    gains = questions that a has right and b has wrong, losses = the reverse; questions on which the models agree say
    nothing. If neither model is better, each disagreement is a fair coin: X ~ Bin(gains + losses, 1/2). Two-sided,

        p      = min(1, 2 P(X <= min(gains, losses)))
        mid-p  = 2 P(X <= min(gains, losses)) - P(X = min(gains, losses))        less conservative, not exact

    and 1.0 if the models never differ. ValueError for other scores than 0 and 1, and if the lengths differ.
    """
    ### BEGIN SOLUTION
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} scores of a, but {len(b)} of b")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise ValueError("McNemar's test takes scores of 0 and 1 only")
    gains, losses = int(np.sum(a > b)), int(np.sum(a < b))
    fewer, n = min(gains, losses), gains + losses
    p = 2 * float(binom.cdf(fewer, n, 0.5))
    if mid_p:
        p -= float(binom.pmf(fewer, n, 0.5))
    return gains, losses, min(1.0, p)
    ### END SOLUTION


def sign_flip_test(
    d: Sequence[float],
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 9999,
    exact_limit: int = 16,
) -> float:
    """Two-sided p-value of the paired permutation test on the differences d_i = a_i - b_i, of any scores.

    If neither model is better, swapping the two models on any question is as likely as not, and it flips the sign of
    that d_i. Zero differences are dropped first; m are left; T = |sum of d|. A sign pattern is *extreme* if its
    |sum of +-d_i| >= T - tol, where tol = 1e-12 * sum of |d_i| forgives rounding in ties.

        m = 0             1.0
        m <= exact_limit  the share of all 2^m patterns that are extreme; rng is not touched
        m > exact_limit   (1 + number of extreme ones among the sampled patterns) / (1 + resamples), where the
                          patterns are the rows of 2 * rng.integers(0, 2, (resamples, m)) - 1, one draw. ValueError
                          without an rng

    All patterns of m = 16: at most 1000 executed lines of Python (no loop over the patterns) and at most 64 MiB of
    memory at peak, which is eight float64 arrays of shape (2^16, 16).
    """
    ### BEGIN SOLUTION
    d = np.asarray(d, dtype=float)
    d = d[d != 0]
    m = len(d)
    if m <= exact_limit:
        # All 2^m signed sums by doubling: each difference is added to, and subtracted from, all sums so far.
        sums = np.zeros(1)
        for difference in d:
            sums = np.concatenate([sums + difference, sums - difference])
    elif rng is None:
        raise ValueError(f"{m} differences are too many to enumerate; give an rng to sample sign patterns")
    else:
        signs = 2 * rng.integers(0, 2, (resamples, m)) - 1
        sums = signs @ d
    tolerance = 1e-12 * np.abs(d).sum()
    extreme = int(np.sum(np.abs(sums) >= abs(d.sum()) - tolerance))
    if m <= exact_limit:
        return extreme / len(sums)
    return (1 + extreme) / (1 + resamples)
    ### END SOLUTION


### BEGIN SOLUTION
def _clustered_error(residuals: np.ndarray, clusters: Sequence[Hashable]) -> tuple[float, int]:
    """(cluster-robust standard error of the mean, number of clusters)."""
    sums: dict[Hashable, float] = {}
    for cluster, residual in zip(clusters, residuals, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + residual
    groups = len(sums)
    if groups < 2:
        raise ValueError(f"{groups} clusters: a spread between clusters takes at least two")
    squares = sum(total**2 for total in sums.values())
    return float(math.sqrt(groups / (groups - 1) * squares) / len(residuals)), groups


### END SOLUTION
