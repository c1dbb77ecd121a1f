"""McNemar's critical counts in exact integers by Pascal's rule, statistics.NormalDist, families by the O(m^2) definition."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from scipy.stats import binom

N = NormalDist()


def questions_needed(delta, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    if not delta:
        raise ValueError("no difference to find")
    z = N.inv_cdf(1 - alpha / 2) + N.inv_cdf(power)
    n = (z / delta) ** 2 * (omega2 + s2_a / k_a + s2_b / k_b)
    return int(round(n)) if math.isclose(n, round(n), rel_tol=1e-9) else math.floor(n) + 1


def minimum_detectable_effect(n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    z = N.inv_cdf(1 - alpha / 2) + N.inv_cdf(power)
    return math.sqrt(z * z * (omega2 + s2_a / k_a + s2_b / k_b) / n)


def normal_power(delta, n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05):
    z = N.inv_cdf(1 - alpha / 2)
    m = delta / ((omega2 + s2_a / k_a + s2_b / k_b) / n) ** 0.5
    return N.cdf(m - z) + N.cdf(-m - z)


def mcnemar_power(n, gain, loss, alpha=0.05):
    r = gain + loss
    if r > 1 + 1e-12:
        raise ValueError("gain + loss > 1")
    if r == 0:
        return 0.0
    r = min(1.0, r)
    num, den = Fraction(alpha).as_integer_ratio()
    # tail = sum_{i <= c} C(m, i), the largest c with 2 tail / 2^m <= alpha; c = -1 rejects never
    c, tail, top = -1, 0, 0  # top = C(m, c)
    crit = [-1]
    for m in range(1, n + 1):
        tail = 2 * tail - top
        top = math.comb(m, c) if c >= 0 else 0
        nxt = math.comb(m, c + 1)
        if 2 * (tail + nxt) * den <= num << m:
            c, tail, top = c + 1, tail + nxt, nxt
        crit.append(c)
    ms = np.arange(n + 1)
    cs = np.array(crit)
    q = gain / r
    left = np.where(cs >= 0, binom.cdf(cs, ms, q), 0.0)
    right = np.where(cs >= 0, binom.cdf(cs, ms, 1 - q), 0.0)
    return math.fsum(binom.pmf(ms, n, r) * (left + right))


def _sorted(p):
    p = [float(x) for x in p]
    for x in p:
        if not 0 <= x <= 1:
            raise ValueError(f"{x} is no probability")
    return p, sorted(range(len(p)), key=p.__getitem__)


def holm(p):
    p, order = _sorted(p)
    m, worst, out = len(p), 0.0, np.zeros(len(p))
    for i, where in enumerate(order):
        worst = max(worst, (m - i) * p[where])
        out[where] = min(1.0, worst)
    return out


def benjamini_hochberg(p):
    p, order = _sorted(p)
    m, best, out = len(p), 1.0, np.zeros(len(p))
    for i in reversed(range(m)):
        best = min(best, p[order[i]] * (m / (i + 1)))
        out[order[i]] = best
    return out


def claims(p, *, alpha=0.05, control="fwer"):
    if control == "fwer":
        adjusted = holm(np.array(list(p.values())))
    elif control == "fdr":
        adjusted = benjamini_hochberg(np.array(list(p.values())))
    else:
        raise ValueError(control)
    return sorted(n for n, a in zip(p.keys(), adjusted) if a <= alpha)
