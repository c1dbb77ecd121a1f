"""Attention's gradient by hand, in FlashAttention's form: one number per row is kept, the weights are not."""

# Not allowed here, in any form: torch, jax, autograd.

from __future__ import annotations

import numpy as np


def softmax_backward(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """From the gradient at a softmax's output to the gradient at its input.

    p   (..., n): the softmax's output, over the last axis (one, two or more dimensions)
    dp  (..., n): the gradient of some scalar loss with respect to p

    With p = softmax(s) the Jacobian of one row has the entries p_i (1[i = j] - p_j): it is diag(p) - p p^T. Returns
    ds = (diag(p) - p p^T) dp for every row, in the same shape; each row of it sums to 0. No n x n matrix is needed.
    """
    raise NotImplementedError("2.3/attention_backward: write softmax_backward")


def attention_forward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """o = softmax(S) v with S = scale * q k^T, and what the backward pass will need: one number per row.

    q (..., Lq, d), k (..., Lk, d), v (..., Lk, dv): float64, equal leading dimensions (none, one or more), all lengths
    at least 1. scale: None means d ** -0.5. causal: query i sees the keys j <= i + Lk - Lq (bottom right, as in the
    previous exercise); S counts as -inf elsewhere.

    Returns (o, lse): o (..., Lq, dv), and lse (..., Lq) = log(sum_j exp(S_ij)), the logsumexp of the scaled and masked
    scores, finite even where exp(S) would overflow. A row that sees no key (causal, Lq > Lk) has o = 0 and lse = -inf,
    without NaN and without a numpy warning.
    """
    raise NotImplementedError("2.3/attention_backward: write attention_forward")


def attention_backward(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    o: np.ndarray,
    lse: np.ndarray,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(dq, dk, dv): the gradients of a loss of which do (..., Lq, dv) is the gradient with respect to o.

    q, k, v, causal, scale as they were given to `attention_forward`, o and lse as it returned them. In this order
    (arXiv:2205.14135, appendix B.2; all per leading index):

        P  = exp(S - lse)              recomputed: 0 where the mask forbids, and in a row with lse = -inf
        dV = P^T dO
        dP = dO V^T
        D  = rowsum(dO * O)            one number per query; equal to rowsum(P * dP), but needs no P
        dS = P * (dP - D)
        dQ = scale * dS K
        dK = scale * dS^T Q

    o and lse are taken as they are passed in: no second softmax, no second o. (Whoever passes lse + 1 gets P, and so
    all three gradients, divided by e; whoever passes another o gets another D.) A row without keys (lse = -inf) gets
    dq = 0 and adds nothing to dk and dv, whatever its do is; no NaN, no numpy warning.

    The functions of this file keep nothing between calls: a backward pass may follow any other calls, or none at all.
    Never hold more than twelve arrays of Lq * Lk numbers at once (a full Jacobian would be Lk times one).
    """
    raise NotImplementedError("2.3/attention_backward: write attention_backward")
