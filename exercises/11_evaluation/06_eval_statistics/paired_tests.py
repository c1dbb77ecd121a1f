"""Is model a better than model b? Three paired tests on the questions that both have answered.

SciPy's distributions (scipy.stats.t, binom, ...) are yours to use; scipy.stats.ttest_rel, ttest_1samp, binomtest and
permutation_test are what you write here.
"""

# Not allowed here, in any form: scipy.stats.ttest_rel, scipy.stats.ttest_1samp, scipy.stats.binomtest,
# scipy.stats.permutation_test.

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np


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
    raise NotImplementedError("11.6/paired_tests: write paired_difference")


def mcnemar(a: Sequence[int], b: Sequence[int], *, mid_p: bool = False) -> tuple[int, int, float]:
    """McNemar's exact test for 0/1 scores: (gains, losses, p).

    gains = questions that a has right and b has wrong, losses = the reverse; questions on which the models agree say
    nothing. If neither model is better, each disagreement is a fair coin: X ~ Bin(gains + losses, 1/2). Two-sided,

        p      = min(1, 2 P(X <= min(gains, losses)))
        mid-p  = 2 P(X <= min(gains, losses)) - P(X = min(gains, losses))        less conservative, not exact

    and 1.0 if the models never differ. ValueError for other scores than 0 and 1, and if the lengths differ.
    """
    raise NotImplementedError("11.6/paired_tests: write mcnemar")


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
    raise NotImplementedError("11.6/paired_tests: write sign_flip_test")
