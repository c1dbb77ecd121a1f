"""Scaled dot-product attention in numpy, with every mask that occurs in practice."""

# Not allowed here, in any form: torch, scipy.special.softmax.

from __future__ import annotations

import numpy as np


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """softmax(q k^T * scale + mask) v: each query takes a weighted average of the values (arXiv:1706.03762, 3.2.1).

    Arguments
        q       (..., Lq, d)
        k       (..., Lk, d)
        v       (..., Lk, dv)     one common dtype: float16, float32 or float64; all lengths at least 1.
                The leading dimensions need not be equal: they broadcast against each other, as in `@`.
        mask    broadcasts to (..., Lq, Lk), so (Lk,), (Lq, 1) or (2, 1, Lq, Lk) may come too. Two kinds:
                bool: True = this query may attend to this key, False = it may not;
                float (any float dtype): added to the scaled scores; -inf = may not attend.
        causal  True: query i may attend to the keys j <= i + Lk - Lq only (aligned to the bottom right: the queries are
                the last Lq of Lk tokens, as when earlier keys come from a cache). With Lq = 1 that is every key; with
                Lq > Lk the first Lq - Lk queries see nothing.
        scale   None means d ** -0.5. Any other number is used as it is, 0.0 and negative ones included.

    mask and causal may be given together: then a query attends to what both allow.

    Returns (..., Lq, dv) in q's dtype. The weights of a query sum to 1 over the keys that it may attend to, and a key
    that it may not attend to has weight exactly 0. A query that may attend to nothing gets exactly 0.

    Numerics: scores of any size that the dtype can hold are fine (q and k in the thousands), no NaN comes out and no
    numpy warning is raised. float16 inputs are computed in float32 and rounded once at the end: their scores may be
    far beyond 65504. In float64 the result is within 1e-11 of torch's (of the largest entry). No argument is changed.
    """
    raise NotImplementedError("2.3/sdpa: write attention")


def attention_weights(
    q: np.ndarray,
    k: np.ndarray,
    mask: np.ndarray | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """The weights that `attention` averages with: (..., Lq, Lk), all >= 0, same arguments and rules.

    Each row sums to 1, or to 0 where the query may attend to nothing. Returned in q's dtype; for float16 inputs float32
    is fine as well. `attention(q, k, v, ...)` equals `attention_weights(q, k, ...) @ v` up to rounding.
    """
    raise NotImplementedError("2.3/sdpa: write attention_weights")
