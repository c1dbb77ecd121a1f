"""Speculative sampling: let a cheap distribution q guess, and still emit tokens that are distributed exactly as p.

All functions are plain functions of probabilities and given uniforms, so that they can be checked by enumeration.
Probability rows may be float32 or float64; compute in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def inverse_cdf(weights: np.ndarray, u: float) -> int:
    """The index that the uniform u in [0, 1) draws from weights (V,), which need not sum to 1.

    With c = cumsum(weights) in float64: the smallest i with c[i] > u * c[-1]. If rounding leaves none (possible where
    c[-1] is denormal), the last index of positive weight. An index of weight 0 is never drawn, also for u = 0.
    ValueError if a weight is negative or if all are 0.
    """
    ### BEGIN SOLUTION
    weights = np.asarray(weights, dtype=np.float64)
    if (weights < 0).any() or not (weights > 0).any():
        raise ValueError("weights must not be negative, and one of them must be positive")
    c = weights.cumsum()
    i = int(np.searchsorted(c, u * c[-1], side="right"))
    return i if i < len(c) else int(np.flatnonzero(weights)[-1])
    ### END SOLUTION


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """What p has more of than q: max(p - q, 0) divided by its sum; p itself if that sum is 0. (V,), always float64.

    This is the distribution from which a rejected token is replaced (arXiv:2211.17192, section 2.3).
    """
    ### BEGIN SOLUTION
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    excess = np.maximum(p - q, 0.0)
    total = excess.sum()
    return excess / total if total > 0 else p
    ### END SOLUTION


def verify(
    p: np.ndarray, q: np.ndarray, draft: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int, int]:
    """Judges k draft tokens: (n_accepted, next_token). The step emits draft[:n_accepted] and then next_token.

    p: (k + 1, V), the target's rows: p[i] is its distribution at the place of draft token i, p[k] at the place after
    the last. q: (k, V), the distributions from which the draft tokens were drawn. Rows sum to 1 up to rounding.
    draft: k tokens; u_accept: k uniforms in [0, 1), one a draft token; u_next: one more. k = 0 is allowed.

    In order: draft token x at place i is accepted iff u_accept[i] * q[i, x] < p[i, x] (strictly). At the first
    rejection i, next_token = inverse_cdf(residual(p[i], q[i]), u_next), and the rest of the draft is dropped, whatever
    its uniforms. If none is rejected, next_token = inverse_cdf(p[k], u_next), the bonus token.

    ValueError if q[i, draft[i]] is 0 at a place up to the first rejection: such a token cannot have been drawn. Later
    places may be checked or not. Source: arXiv:2211.17192, algorithm 1; arXiv:2302.01318, algorithm 2.
    """
    ### BEGIN SOLUTION
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    k = len(draft)
    for i, x in enumerate(draft):
        if q[i, x] == 0:
            raise ValueError(f"draft token {i} is {x}, which has probability 0 in q")
        if not u_accept[i] * q[i, x] < p[i, x]:
            return i, inverse_cdf(residual(p[i], q[i]), u_next)
    return k, inverse_cdf(p[k], u_next)
    ### END SOLUTION


def verify_candidates(
    p: np.ndarray, q: np.ndarray, candidates: Sequence[int], u_accept: Sequence[float], u_next: float
) -> tuple[int | None, int]:
    """Judges several candidates for *one* place, drawn independently from q: (index of the accepted one, token).

    p, q: (V,). Start with r = p and try the candidates in order with one uniform each: x is accepted iff u * q[x] <
    r[x]; after each rejection r becomes residual(r, q). If all are rejected: (None, inverse_cdf(r, u_next)) with the r
    that is left; so without candidates a token is drawn from p. The token is distributed as p (arXiv:2305.09781).
    """
    ### BEGIN SOLUTION
    r, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    for i, x in enumerate(candidates):
        if u_accept[i] * q[x] < r[x]:
            return i, int(x)
        r = residual(r, q)
    return None, inverse_cdf(r, u_next)
    ### END SOLUTION


def acceptance_rate(p: np.ndarray, q: np.ndarray) -> float:
    """The probability that a token drawn from q is accepted: sum(min(p, q)), which is 1 - total variation distance."""
    ### BEGIN SOLUTION
    return float(np.minimum(p, q).sum(dtype=np.float64))
    ### END SOLUTION


def induced_distribution(q: np.ndarray, accept: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Exact distribution (V,) of the emitted token under any rule of this kind: x ~ q is kept with probability
    accept[x], and otherwise replaced by a draw from fallback (V,), a distribution. float64.

    With it you can prove a rule right: put in accept = min(1, p / q) and a fallback, and see whether p comes out.
    """
    ### BEGIN SOLUTION
    kept = np.asarray(q, dtype=np.float64) * accept
    return kept + (1.0 - kept.sum()) * np.asarray(fallback, dtype=np.float64)
    ### END SOLUTION
