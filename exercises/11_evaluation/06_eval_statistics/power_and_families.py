"""Before the run: how many questions it takes. After it: which of many comparisons may be claimed.

SciPy's distributions (scipy.stats.norm, binom) are yours to use; scipy.stats.false_discovery_control is what you write.

The first three functions share one model (arXiv:2411.00640). Models a and b answer the same n questions,
k_a and k_b times each, and the mean difference of their scores has the variance

    SE^2 = (omega2 + s2_a / k_a + s2_b / k_b) / n

omega2: variance, over questions, of the true difference. s2_a, s2_b: variance of one sampled answer's score around the
model's expected score on that question, averaged over questions. It is always greater than 0 here.
"""

# Not allowed here, in any form: scipy.stats.false_discovery_control.

from __future__ import annotations

import math

import numpy as np


def questions_needed(
    delta: float,
    omega2: float,
    s2_a: float,
    s2_b: float,
    *,
    k_a: int = 1,
    k_b: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """The number of questions with which a true difference delta is found with probability `power`.

    n = (z + z')^2 (omega2 + s2_a / k_a + s2_b / k_b) / delta^2, rounded up, where z is the normal quantile at 1 -
    alpha / 2 (two-sided test at level alpha) and z' the one at `power`. A value within 1e-9 of a whole number,
    relatively, is that number. delta may be negative. ValueError if it is 0.
    """
    raise NotImplementedError("11.6/power_and_families: write questions_needed")


def minimum_detectable_effect(
    n: int,
    omega2: float,
    s2_a: float,
    s2_b: float,
    *,
    k_a: int = 1,
    k_b: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """The same formula solved for delta > 0: the smallest true difference found with probability `power`."""
    raise NotImplementedError("11.6/power_and_families: write minimum_detectable_effect")


def normal_power(
    delta: float,
    n: int,
    omega2: float,
    s2_a: float,
    s2_b: float,
    *,
    k_a: int = 1,
    k_b: int = 1,
    alpha: float = 0.05,
) -> float:
    """The probability that the two-sided normal test at level alpha rejects, if the true difference is delta.

    P(|Z + delta / SE| > z) with Z standard normal and z its quantile at 1 - alpha / 2. Both rejection regions count,
    also the one on the wrong side: the power at delta = 0 is alpha.
    """
    raise NotImplementedError("11.6/power_and_families: write normal_power")


def mcnemar_power(n: int, gain: float, loss: float, alpha: float = 0.05) -> float:
    """Exact power of the two-sided exact McNemar test at level alpha (0 < alpha < 1) on n questions.

    Each question, independently, is a gain with probability `gain`, a loss with probability `loss`, else a tie. With
    m = gains + losses the test rejects where p = min(1, 2 P(Bin(m, 1/2) <= min(gains, losses))) <= alpha; m itself is
    random, Bin(n, gain + loss). Returns the probability that it rejects, within 1e-9; 0.0 if gain + loss = 0.
    ValueError if gain + loss exceeds 1. n = 1000 takes at most 20,000 executed lines of Python.
    """
    raise NotImplementedError("11.6/power_and_families: write mcnemar_power")


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values, float64, in the order given.

    Claiming those <= alpha keeps the chance of any false claim at alpha or below, however the tests depend on each
    other.

    p (m,). With p_(1) <= ... <= p_(m): the adjusted p_(i) is the maximum over j <= i of (m - j + 1) p_(j), at most 1.
    An empty array gives an empty one. ValueError for NaN and for values outside [0, 1]. p is not changed.
    """
    raise NotImplementedError("11.6/power_and_families: write holm")


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's adjusted p-values (q-values), float64, in the order given.

    Claiming those <= alpha keeps the expected share of false claims among all claims at alpha or below, for independent
    tests.

    p (m,). With p_(1) <= ... <= p_(m): the adjusted p_(i) is the minimum over j >= i of m p_(j) / j, at most 1. An
    empty array gives an empty one. ValueError for NaN and for values outside [0, 1]. p is not changed.
    """
    raise NotImplementedError("11.6/power_and_families: write benjamini_hochberg")


def claims(p: dict[str, float], *, alpha: float = 0.05, control: str = "fwer") -> list[str]:
    """The names (of subtasks, say) with an adjusted p-value <= alpha, sorted.

    p: p-value by name. control "fwer" (family-wise error rate): Holm; "fdr" (false discovery rate): Benjamini-Hochberg;
    anything else: ValueError. {} gives [].
    """
    raise NotImplementedError("11.6/power_and_families: write claims")
