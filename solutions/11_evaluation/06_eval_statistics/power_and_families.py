"""Before the run: how many questions it takes. After it: which of many comparisons may be claimed.

SciPy's distributions (scipy.stats.norm, binom) are yours to use; scipy.stats.false_discovery_control is what you write.

The first three functions share one model (arXiv:2411.00640). Models a and b answer the same n questions,
k_a and k_b times each, and the mean difference of their scores has the variance

    SE^2 = (omega2 + s2_a / k_a + s2_b / k_b) / n

omega2: variance, over questions, of the true difference. s2_a, s2_b: variance of one sampled answer's score around the
model's expected score on that question, averaged over questions. It is always greater than 0 here.
"""

from __future__ import annotations

import math

import numpy as np

### BEGIN SOLUTION
from scipy.stats import binom, norm

### END SOLUTION


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
    ### BEGIN SOLUTION
    if delta == 0:
        raise ValueError("no number of questions shows a difference of 0")
    n = (_z_sum(alpha, power) / delta) ** 2 * _variance(omega2, s2_a, s2_b, k_a, k_b)
    nearest = round(n)
    return nearest if abs(n - nearest) <= 1e-9 * n else math.ceil(n)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    return _z_sum(alpha, power) * math.sqrt(_variance(omega2, s2_a, s2_b, k_a, k_b) / n)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    shift = delta / math.sqrt(_variance(omega2, s2_a, s2_b, k_a, k_b) / n)
    z = norm.ppf(1 - alpha / 2)
    return float(norm.sf(z - shift) + norm.cdf(-z - shift))
    ### END SOLUTION


def mcnemar_power(n: int, gain: float, loss: float, alpha: float = 0.05) -> float:
    """Exact power of the two-sided exact McNemar test at level alpha (0 < alpha < 1) on n questions.

    Each question, independently, is a gain with probability `gain`, a loss with probability `loss`, else a tie. With
    m = gains + losses the test rejects where p = min(1, 2 P(Bin(m, 1/2) <= min(gains, losses))) <= alpha; m itself is
    random, Bin(n, gain + loss). Returns the probability that it rejects, within 1e-9; 0.0 if gain + loss = 0.
    ValueError if gain + loss exceeds 1. n = 1000 takes at most 20,000 executed lines of Python.
    """
    ### BEGIN SOLUTION
    differ = gain + loss
    if differ > 1:
        raise ValueError(f"gain {gain} + loss {loss} exceeds 1")
    if differ == 0:
        return 0.0
    m = np.arange(1, n + 1)
    # The largest number of gains (or of losses) that is still few enough to reject, for each m; -1 if there is none.
    critical = binom.ppf(alpha / 2, m, 0.5)
    critical = np.where(2 * binom.cdf(critical, m, 0.5) <= alpha, critical, critical - 1)
    few_gains = binom.cdf(critical, m, gain / differ)
    few_losses = binom.cdf(critical, m, loss / differ)
    return float(np.sum(binom.pmf(m, n, differ) * (few_gains + few_losses)))
    ### END SOLUTION


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values, float64, in the order given.

    Claiming those <= alpha keeps the chance of any false claim at alpha or below, however the tests depend on each
    other.

    p (m,). With p_(1) <= ... <= p_(m): the adjusted p_(i) is the maximum over j <= i of (m - j + 1) p_(j), at most 1.
    An empty array gives an empty one. ValueError for NaN and for values outside [0, 1]. p is not changed.
    """
    ### BEGIN SOLUTION
    _check(p)
    m = len(p)
    order = np.argsort(p)
    steps = p[order] * np.arange(m, 0, -1)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
    ### END SOLUTION


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's adjusted p-values (q-values), float64, in the order given.

    Claiming those <= alpha keeps the expected share of false claims among all claims at alpha or below, for independent
    tests.

    p (m,). With p_(1) <= ... <= p_(m): the adjusted p_(i) is the minimum over j >= i of m p_(j) / j, at most 1. An
    empty array gives an empty one. ValueError for NaN and for values outside [0, 1]. p is not changed.
    """
    ### BEGIN SOLUTION
    _check(p)
    m = len(p)
    order = np.argsort(p)
    steps = p[order] * m / np.arange(1, m + 1)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return adjusted
    ### END SOLUTION


def claims(p: dict[str, float], *, alpha: float = 0.05, control: str = "fwer") -> list[str]:
    """The names (of subtasks, say) with an adjusted p-value <= alpha, sorted.

    p: p-value by name. control "fwer" (family-wise error rate): Holm; "fdr" (false discovery rate): Benjamini-Hochberg;
    anything else: ValueError. {} gives [].
    """
    ### BEGIN SOLUTION
    adjustments = {"fwer": holm, "fdr": benjamini_hochberg}
    if control not in adjustments:
        raise ValueError(f"control {control!r}: it is 'fwer' or 'fdr'")
    adjusted = adjustments[control](np.array(list(p.values()), dtype=float))
    return sorted(name for name, value in zip(p, adjusted, strict=True) if value <= alpha)
    ### END SOLUTION


### BEGIN SOLUTION
def _variance(omega2: float, s2_a: float, s2_b: float, k_a: int, k_b: int) -> float:
    """Variance of one question's contribution to the mean difference: SE^2 times n."""
    return omega2 + s2_a / k_a + s2_b / k_b


def _z_sum(alpha: float, power: float) -> float:
    return float(norm.ppf(1 - alpha / 2) + norm.ppf(power))


def _check(p: np.ndarray) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie in [0, 1]")


### END SOLUTION
