"""All sign patterns from the bits of a counter; McNemar by integer binomials; the t test from scipy.special."""

import math
from collections import defaultdict

import numpy as np
from scipy import special


def paired_difference(a, b, clusters=None, *, confidence=0.95):
    a, b = [float(x) for x in a], [float(x) for x in b]
    n = len(a)
    if n != len(b) or n < 2:
        raise ValueError("lengths")
    d = [x - y for x, y in zip(a, b, strict=True)]
    diff = math.fsum(d) / n
    labels = list(range(n)) if clusters is None else list(clusters)
    if len(labels) != n:
        raise ValueError("lengths")
    sums = defaultdict(float)
    for label, x in zip(labels, d, strict=True):
        sums[label] += x - diff
    g = len(sums)
    if g < 2:
        raise ValueError("clusters")
    se = math.sqrt(g / (g - 1) * math.fsum(s * s for s in sums.values())) / n
    t = special.stdtrit(g - 1, (1 + confidence) / 2)
    p = 2 * special.stdtr(g - 1, -abs(diff) / se) if se else float(not diff)
    mean_a, mean_b = math.fsum(a) / n, math.fsum(b) / n
    saa = math.fsum((x - mean_a) ** 2 for x in a)
    sbb = math.fsum((x - mean_b) ** 2 for x in b)
    sab = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    correlation = float("nan")
    if min(a) < max(a) and min(b) < max(b):
        correlation = sab / math.sqrt(saa * sbb)
    return {
        "correlation": correlation,
        "unpaired_se": math.sqrt((saa + sbb) / (n - 1) / n),
        "p": p,
        "ci": (diff - t * se, diff + t * se),
        "se": se,
        "diff": diff,
    }


def mcnemar(a, b, *, mid_p=False):
    if len(a) != len(b) or {*a, *b} - {0, 1}:
        raise ValueError("scores")
    gains = sum(x == 1 and y == 0 for x, y in zip(a, b, strict=True))
    losses = sum(x == 0 and y == 1 for x, y in zip(a, b, strict=True))
    n, fewer = gains + losses, min(gains, losses)
    tail = 2 * sum(math.comb(n, k) for k in range(fewer + 1))
    if mid_p:
        tail -= math.comb(n, fewer)
    return gains, losses, min(1.0, tail / 2**n)


def sign_flip_test(d, *, rng=None, resamples=9999, exact_limit=16):
    d = np.array([x for x in d if x != 0], dtype=float)
    m = d.size
    if m == 0:
        return 1.0
    at_least = abs(d.sum()) - 1e-12 * np.abs(d).sum()
    if m > exact_limit:
        if rng is None:
            raise ValueError("needs an rng")
        sums = (2 * rng.integers(0, 2, (resamples, m)) - 1) @ d
        return (1 + np.count_nonzero(np.abs(sums) >= at_least)) / (1 + resamples)
    patterns = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    sums = (2 * patterns - 1) @ d
    return float(np.mean(np.abs(sums) >= at_least))
