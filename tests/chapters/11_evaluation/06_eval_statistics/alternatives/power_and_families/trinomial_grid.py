"""McNemar's power as a sum of trinomial probabilities over the (gains, losses) grid, row by row; matrix-form families."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr, gammaln, ndtr, ndtri, xlogy


def _total(z, omega2, s2_a, s2_b, k_a, k_b):
    return z**2 * (omega2 + s2_a / k_a + s2_b / k_b)


def questions_needed(delta, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    if delta == 0:
        raise ValueError("delta")
    n = _total(ndtri(1 - alpha / 2) + ndtri(power), omega2, s2_a, s2_b, k_a, k_b) / delta**2
    return int(math.ceil(n * (1 - 1e-9)))


def minimum_detectable_effect(n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    return float(np.sqrt(_total(ndtri(1 - alpha / 2) + ndtri(power), omega2, s2_a, s2_b, k_a, k_b) / n))


def normal_power(delta, n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05):
    z, d = ndtri(1 - alpha / 2), delta / np.sqrt(_total(1, omega2, s2_a, s2_b, k_a, k_b) / n)
    return float(1 - (ndtr(z - d) - ndtr(-z - d)))


def mcnemar_power(n, gain, loss, alpha=0.05):
    tie = 1 - gain - loss
    if tie < -1e-12:
        raise ValueError("gain + loss")
    if gain + loss == 0:
        return 0.0
    tie = max(0.0, tie)
    total = 0.0
    for g in range(n + 1):
        l = np.arange(n - g + 1)
        m = g + l
        p = np.minimum(1.0, 2 * bdtr(np.minimum(g, l), m, 0.5))
        p[m == 0] = 1.0
        hit = p <= alpha + 1e-13
        l = l[hit]
        t = n - g - l
        logs = gammaln(n + 1) - gammaln(g + 1) - gammaln(l + 1) - gammaln(t + 1)
        total += np.exp(logs + xlogy(g, gain) + xlogy(l, loss) + xlogy(t, tie)).sum()
    return float(total)


def _sort(p):
    p = np.array(p, dtype=float)
    if np.isnan(p).any() or (p < 0).any() or (p > 1).any():
        raise ValueError("p")
    order = p.argsort()
    return p[order], order.argsort()


def holm(p):
    s, back = _sort(p)
    m = s.size
    steps = s * np.arange(m, 0, -1)
    return np.array([min(1.0, steps[: i + 1].max()) for i in range(m)])[back] if m else np.zeros(0)


def benjamini_hochberg(p):
    s, back = _sort(p)
    m = s.size
    steps = s * m / np.arange(1, m + 1)
    return np.array([min(1.0, steps[i:].min()) for i in range(m)])[back] if m else np.zeros(0)


def claims(p, *, alpha=0.05, control="fwer"):
    if control not in ("fwer", "fdr"):
        raise ValueError(control)
    names = sorted(p)
    q = (holm if control == "fwer" else benjamini_hochberg)([p[x] for x in names])
    return [x for x, v in zip(names, q) if v <= alpha]
