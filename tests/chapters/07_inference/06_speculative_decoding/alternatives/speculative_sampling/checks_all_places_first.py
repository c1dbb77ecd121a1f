"""verify refuses an impossible draft token at any place before judging."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def inverse_cdf(weights: np.ndarray, u: float) -> int:
    w = np.asarray(weights, dtype=np.float64)
    if (w < 0).any() or not (w > 0).any():
        raise ValueError("weights must be non-negative and not all 0")
    c = np.cumsum(w)
    i = int(np.searchsorted(c, u * c[-1], side="right"))
    if i == len(c):
        i = int(np.flatnonzero(w)[-1])
    return i


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    p = np.array(p, dtype=np.float64)
    r = np.maximum(p - np.asarray(q, dtype=np.float64), 0.0)
    s = r.sum()
    return r / s if s > 0 else p


def verify(
    p: np.ndarray, q: np.ndarray, draft: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int, int]:
    for i, x in enumerate(draft):
        if q[i, x] == 0:
            raise ValueError(f"draft token {x} has probability 0")
    for i, x in enumerate(draft):
        px, qx = float(p[i, x]), float(q[i, x])
        if qx == 0:
            raise ValueError(f"draft token {x} at place {i} has probability 0")
        if not u_accept[i] * qx < px:
            return i, inverse_cdf(residual(p[i], q[i]), u_next)
    return len(draft), inverse_cdf(p[len(draft)], u_next)


def verify_candidates(
    p: np.ndarray, q: np.ndarray, candidates: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int | None, int]:
    r = np.asarray(p, dtype=np.float64)
    for i, x in enumerate(candidates):
        if u_accept[i] * float(q[x]) < r[x]:
            return i, int(x)
        r = residual(r, q)
    return None, inverse_cdf(r, u_next)


def acceptance_rate(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.minimum(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)).sum())


def induced_distribution(q: np.ndarray, accept: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    q, accept, fallback = (np.asarray(a, dtype=np.float64) for a in (q, accept, fallback))
    return q * accept + (q * (1 - accept)).sum() * fallback
