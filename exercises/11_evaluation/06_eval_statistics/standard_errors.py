"""The error bar of an eval score: independent questions, clustered questions, sampled answers (arXiv:2411.00640).

scipy.stats may be used for the quantiles of Student's t distribution.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np


def standard_error(scores: Sequence[float]) -> float:
    """Standard error of the mean of n independent scores: s / sqrt(n).

    `scores`: list, tuple or 1-D array with one number per question: 0/1 or bool for right and wrong, anything between
    for partial credit. s is the sample standard deviation, sqrt(sum (x - mean)^2 / (n - 1)); for 0/1 scores that is
    nearly sqrt(p (1 - p)), for partial credit it is smaller. ValueError for fewer than two scores.
    """
    raise NotImplementedError("11.6/standard_errors: write standard_error")


def clustered_standard_error(scores: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Standard error of the mean when questions come in clusters, such as ten questions about one passage.

    clusters[i] is the label of score i. Labels are only asked whether they are equal: strings, ints, tuples, also mixed
    (1 and "1" are two clusters). Members of a cluster need not stand together, and clusters may differ in size.

    With e_i = score_i - mean of all scores, G clusters and n scores,

        sqrt(G / (G - 1) * sum over clusters of (sum of e_i in the cluster)^2) / n

    that is, residuals are summed within a cluster before they are squared (arXiv:2411.00640, with the
    usual small-sample factor G / (G - 1)). ValueError if G < 2 or if the two lengths differ.
    """
    raise NotImplementedError("11.6/standard_errors: write clustered_standard_error")


def mean_interval(
    scores: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> tuple[float, float]:
    """(low, high) of the confidence interval mean -+ t * standard error.

    t is the (1 + confidence) / 2 quantile of Student's t distribution: with n - 1 degrees of freedom and the plain
    standard error, or with G - 1 degrees and the clustered one if clusters are given. The interval is not clipped: it
    may reach below 0 or above 1. ValueError as in the two functions above.
    """
    raise NotImplementedError("11.6/standard_errors: write mean_interval")


def design_effect(scores: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Clustered variance / plain variance, both of the mean (the squares of the two standard errors above).

    n scores in clusters are worth n / design effect independent ones. Below 1 if scores balance out within clusters.
    ValueError as above, and if all scores are equal: then there is no variance to compare.
    """
    raise NotImplementedError("11.6/standard_errors: write design_effect")


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate, from n sampled answers of which c are right, of the chance that at least one of k answers is right.

    1 - g_k, where g_j = C(n - c, j) / C(n, j) is the share of the subsets of j answers that hold no right one; g_j =
    0 if j > n - c. It is unbiased for 1 - (1 - p)^k (arXiv:2107.03374, section 2.1). Relative error at most 1e-9,
    also for n = 10**5, where the binomial coefficients are far beyond float. ValueError unless 1 <= k <= n and 0 <= c
    <= n.
    """
    raise NotImplementedError("11.6/standard_errors: write pass_at_k")


def pass_at_k_variance(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the variance of pass_at_k when the n answers are sampled again: g_k^2 - g_2k.

    Why: E[g_j] = (1 - p)^j for every j <= n, and Var(g_k) = E[g_k^2] - (1 - p)^2k, so g_2k estimates what has to be
    subtracted. Never negative; 0 for c = 0 and c = n. Absolute error at most 1e-12. ValueError if 2k > n, and where
    pass_at_k raises it.
    """
    raise NotImplementedError("11.6/standard_errors: write pass_at_k_variance")


def benchmark_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> dict[str, float]:
    """pass@k of a benchmark with both of its error bars. counts: (n_i, c_i) per question; the n_i may differ.

    Returns a dict with exactly these keys, where v_i = pass_at_k(n_i, c_i, k):

        "mean"          the average of the v_i
        "se_questions"  standard_error of the v_i: the questions are a sample of a larger world. Each v_i already
                        carries the noise of its sampled answers, so this error bar contains it
        "se_answers"    sqrt(sum of pass_at_k_variance(n_i, c_i, k)) / number of questions: these questions are all
                        that matters, only the sampled answers change

    ValueError for fewer than two questions, and where the functions above raise it.
    """
    raise NotImplementedError("11.6/standard_errors: write benchmark_pass_at_k")
