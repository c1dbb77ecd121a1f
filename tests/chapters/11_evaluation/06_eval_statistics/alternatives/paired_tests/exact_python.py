"""Pure Python sums (fsum, math.comb, Counter), sign patterns by bit shifts in one (2^m, m) int8 matrix, chunked."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.special import stdtr, stdtrit


def _var(x):
    m = math.fsum(x) / len(x)
    return math.fsum((v - m) ** 2 for v in x) / (len(x) - 1)


def paired_difference(a, b, clusters=None, *, confidence=0.95):
    a, b = [float(v) for v in a], [float(v) for v in b]
    n = len(a)
    if n < 2 or len(b) != n:
        raise ValueError
    d = [x - y for x, y in zip(a, b)]
    diff = math.fsum(d) / n
    if clusters is None:
        groups, df = None, n - 1
        se = math.sqrt(_var(d) / n)
    else:
        clusters = list(clusters)
        if len(clusters) != n:
            raise ValueError
        groups = defaultdict(list)
        for c, v in zip(clusters, d):
            groups[c].append(v - diff)
        df = len(groups) - 1
        if df < 1:
            raise ValueError
        se = math.sqrt((df + 1) / df * math.fsum(math.fsum(g) ** 2 for g in groups.values())) / n
    if len(set(d)) == 1:
        diff, se = d[0], 0.0
    t = float(stdtrit(df, (1 + confidence) / 2))
    if se == 0:
        p = float(diff == 0)
    else:
        p = 2 * float(stdtr(df, -abs(diff / se)))
    corr = math.nan
    if len(set(a)) > 1 and len(set(b)) > 1:
        ma, mb = math.fsum(a) / n, math.fsum(b) / n
        cov = math.fsum((x - ma) * (y - mb) for x, y in zip(a, b)) / (n - 1)
        corr = cov / math.sqrt(_var(a) * _var(b))
    return dict(
        diff=diff,
        se=se,
        ci=(diff - t * se, diff + t * se),
        p=p,
        unpaired_se=math.sqrt(_var(a) / n + _var(b) / n),
        correlation=corr,
    )


def mcnemar(a, b, *, mid_p=False):
    a, b = list(a), list(b)
    if len(a) != len(b):
        raise ValueError
    for s in a + b:
        if not (s == 0 or s == 1):
            raise ValueError
    gains = sum(x == 1 and y == 0 for x, y in zip(a, b))
    losses = sum(x == 0 and y == 1 for x, y in zip(a, b))
    m, k = gains + losses, min(gains, losses)
    if m == 0:
        return gains, losses, 1.0
    two = 2 * sum(math.comb(m, i) for i in range(k + 1))
    if mid_p:
        two -= math.comb(m, k)
    return gains, losses, float(min(Fraction(1), Fraction(two, 2**m)))


def sign_flip_test(d, *, rng=None, resamples=9999, exact_limit=16):
    d = np.array([float(v) for v in d if v != 0])
    m = d.size
    if m == 0:
        return 1.0
    limit = abs(math.fsum(d)) - 1e-12 * math.fsum(abs(d))
    if m > exact_limit:
        if rng is None:
            raise ValueError
        signs = 2 * rng.integers(0, 2, (resamples, m)) - 1
        return (1 + int((abs((signs * d).sum(axis=1)) >= limit).sum())) / (1 + resamples)
    hits = 0
    for start in range(0, 2**m, 2**13):
        codes = np.arange(start, min(2**m, start + 2**13))
        signs = 1 - 2 * (codes[:, None] >> np.arange(m) & 1)
        hits += int((abs(signs @ d) >= limit).sum())
    return hits / 2**m
