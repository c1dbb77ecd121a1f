"""Plain Python numbers and loops, and the ratio p / q instead of the product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np


def inverse_cdf(weights: np.ndarray, u: float) -> int:
    values = [float(w) for w in weights]
    if min(values) < 0 or max(values) == 0:
        raise ValueError("no distribution")
    sums = list(accumulate(values))
    for i, c in enumerate(sums):
        if c > u * sums[-1]:
            return i
    return max(i for i, w in enumerate(values) if w > 0)


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    left = [max(float(a) - float(b), 0.0) for a, b in zip(p, q, strict=True)]
    total = math.fsum(left)
    if total == 0:
        return np.array(p, dtype=float)
    return np.array([x / total for x in left])


def verify(
    p: np.ndarray, q: np.ndarray, draft: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int, int]:
    accepted = 0
    while accepted < len(draft):
        token = draft[accepted]
        proposed, wanted = float(q[accepted][token]), float(p[accepted][token])
        if proposed == 0.0:
            raise ValueError("impossible draft")
        if u_accept[accepted] >= min(1.0, wanted / proposed):
            break
        accepted += 1
    if accepted == len(draft):
        return accepted, inverse_cdf(p[accepted], u_next)
    return accepted, inverse_cdf(residual(p[accepted], q[accepted]), u_next)


def verify_candidates(
    p: np.ndarray, q: np.ndarray, candidates: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int | None, int]:
    target = np.array(p, dtype=float)
    for number, (token, u) in enumerate(zip(candidates, u_accept, strict=True)):
        if u < target[token] / q[token]:
            return number, token
        target = residual(target, q)
    return None, inverse_cdf(target, u_next)


def acceptance_rate(p: np.ndarray, q: np.ndarray) -> float:
    return 1.0 - 0.5 * sum(abs(float(a) - float(b)) for a, b in zip(p, q, strict=True))


def induced_distribution(q: np.ndarray, accept: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    result = np.zeros(len(q))
    for x in range(len(q)):
        result[x] += q[x] * accept[x]
        result += q[x] * (1 - accept[x]) * np.asarray(fallback, dtype=float)
    return result
