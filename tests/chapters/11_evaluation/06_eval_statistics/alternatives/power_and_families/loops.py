"""McNemar's power with a loop over disagreements; Holm and Benjamini-Hochberg one p-value at a time."""

import math
from statistics import NormalDist

import numpy as np
from scipy import special

_Z = NormalDist()


def questions_needed(delta, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    if delta == 0:
        raise ValueError("delta")
    effect_of_one = minimum_detectable_effect(1, omega2, s2_a, s2_b, k_a=k_a, k_b=k_b, alpha=alpha, power=power)
    n = (effect_of_one / delta) ** 2
    return math.ceil(n * (1 - 1e-9))


def minimum_detectable_effect(n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05, power=0.8):
    return (_Z.inv_cdf(power) - _Z.inv_cdf(alpha / 2)) * ((omega2 + s2_a / k_a + s2_b / k_b) / n) ** 0.5


def normal_power(delta, n, omega2, s2_a, s2_b, *, k_a=1, k_b=1, alpha=0.05):
    shift = abs(delta) / ((omega2 + s2_a / k_a + s2_b / k_b) / n) ** 0.5
    z = _Z.inv_cdf(1 - alpha / 2)
    return _Z.cdf(shift - z) + _Z.cdf(-shift - z)


def mcnemar_power(n, gain, loss, alpha=0.05):
    either = gain + loss
    if either > 1:
        raise ValueError("more than 1")
    if either == 0:
        return 0.0
    share, total, fewest = gain / either, 0.0, -1
    for m in range(1, n + 1):
        # The critical number grows by at most one per disagreement.
        while 2 * special.bdtr(fewest + 1, m, 0.5) <= alpha:
            fewest += 1
        if fewest < 0:
            continue
        chance = math.exp(
            math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
            + m * math.log(either) + (special.xlog1py(n - m, -either))
        )  # fmt: skip
        total += chance * (special.bdtr(fewest, m, share) + special.bdtrc(m - fewest - 1, m, share))
    return float(total)


def _valid(p):
    for x in p:
        if not 0 <= x <= 1:
            raise ValueError("p")


def holm(p):
    _valid(p)
    out, running, left = np.zeros(len(p)), 0.0, len(p)
    for i in sorted(range(len(p)), key=p.__getitem__):
        running = max(running, min(1.0, left * p[i]))
        out[i] = running
        left -= 1
    return out


def benjamini_hochberg(p):
    _valid(p)
    m = len(p)
    out, running = np.zeros(m), 1.0
    for rank, i in zip(range(m, 0, -1), sorted(range(m), key=p.__getitem__, reverse=True), strict=True):
        running = min(running, m * p[i] / rank)
        out[i] = running
    return out


def claims(p, *, alpha=0.05, control="fwer"):
    if control == "fwer":
        q = holm(np.array([*p.values()], dtype=float))
    elif control == "fdr":
        q = benjamini_hochberg(np.array([*p.values()], dtype=float))
    else:
        raise ValueError(control)
    return sorted(np.array([*p], dtype=object)[q <= alpha].tolist())
