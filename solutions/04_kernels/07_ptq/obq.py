"""Optimal Brain Quantizer: fix one weight at a time, and let all the free ones repair what it broke."""

from __future__ import annotations

import torch
from torch import Tensor


def eliminate(hinv: Tensor, p: int) -> Tensor:
    """Drop variable p from an inverse: (n, n) -> (n - 1, n - 1), without inverting anything.

    hinv is the inverse of a symmetric positive definite matrix H, float64, n >= 1, 0 <= p < n. Returned is the inverse
    of H *without its row and column p*. It is not hinv without them, but

        hinv - hinv[:, p] hinv[p, :] / hinv[p, p]       (one step of Gaussian elimination, zero in row and column p)

    with row and column p left out; the others keep their order. Cost: O(n^2). hinv is not modified.
    """
    ### BEGIN SOLUTION
    keep = torch.arange(hinv.shape[0]) != p
    rest = hinv - torch.outer(hinv[:, p], hinv[p, :]) / hinv[p, p]
    return rest[keep][:, keep]
    ### END SOLUTION


def round_to_grid(w: Tensor, scale: float, zero: int, bits: int) -> Tensor:
    """The nearest value on a uniform grid of 2^bits values, for each entry of w (any shape; result in w's dtype).

        code = clamp(round(w / scale) + zero, 0, 2^bits - 1)        round: half to even, as torch.round does
        value = scale * (code - zero)

    scale > 0 is the distance of neighbours, and zero (an integer in 0 .. 2^bits - 1) the code of the value 0. So the
    grid reaches from -scale * zero to scale * (2^bits - 1 - zero); what lies beyond becomes the end of the grid.
    With scale 1, zero 2, bits 2: [-7, 0.5, 1.4, 3] -> [-2, 0, 1, 1].
    """
    ### BEGIN SOLUTION
    code = torch.clamp(torch.round(w / scale) + zero, 0, 2**bits - 1)
    return scale * (code - zero)
    ### END SOLUTION


def obq_row(w: Tensor, h: Tensor, *, scale: float, zero: int, bits: int) -> tuple[Tensor, list[int], list[float]]:
    """Quantise one row of a linear layer, the cheapest weight first (arXiv:2208.11580, section 5).

    w: (n,) float64, n >= 1. h: (n, n) float64, symmetric positive definite: x^T x of the layer's inputs x (tokens, n),
    so that a row w' in place of w costs

        loss(w') = (w - w') h (w - w')^T = |x w - x w'|^2.

    Until every weight is on the grid:
    1. For each weight p that is still free, q_p is w_p as it stands now, rounded to the grid (`round_to_grid`), and
       rounding it would add (w_p - q_p)^2 / Hinv[p, p] to the loss; Hinv is the inverse of h over the free weights.
    2. Choose the weight that costs least; of equal costs the one with the lowest index.
    3. It becomes exactly q_p, for good. The weights still free move to where the loss is least, given all that is
       fixed: w -= (w_p - q_p) / Hinv[p, p] * Hinv[:, p].
    4. p leaves: Hinv shrinks (`eliminate`).

    Returns (quantised row (n,) float64, the indices in the order in which they were chosen, the cost of each of these
    steps). The costs add up to loss(quantised row).

    Cost: h is inverted or factorised once, before the loop, and never again. w and h are not modified.
    """
    ### BEGIN SOLUTION
    w, hinv = w.clone(), torch.linalg.inv(h)
    free = torch.arange(len(w))  # row i of hinv belongs to weight free[i]
    order: list[int] = []
    costs: list[float] = []
    while len(free):
        q = round_to_grid(w[free], scale, zero, bits)
        error = w[free] - q
        cost = error**2 / hinv.diagonal()
        i = int(cost.argmin())  # the first of equals
        w[free] -= error[i] / hinv[i, i] * hinv[:, i]
        w[free[i]] = q[i]  # free of rounding error
        order.append(int(free[i]))
        costs.append(float(cost[i]))
        hinv = eliminate(hinv, i)
        free = torch.cat([free[:i], free[i + 1 :]])
    return w, order, costs
    ### END SOLUTION


def obs_prune(w: Tensor, h: Tensor, count: int) -> tuple[Tensor, list[int]]:
    """Optimal Brain Surgeon: set `count` weights to zero, one at a time, and repair the rest after each.

    w: (n,) float64, h: (n, n) float64, as for `obq_row`. It is the same procedure with q_p = 0 and an end after `count`
    steps: of the weights still free remove the one with the least w_p^2 / Hinv[p, p] (of equals the lowest index), then
    repair the others and eliminate.

    Returns (row (n,) float64, the removed indices in order). Removed weights are exactly 0, the others are what a
    least-squares fit with these weights missing gives. count = 0 leaves all values as they are; count < 0 or count > n:
    ValueError. Cost: h is inverted or factorised once at most. w and h are not modified.
    """
    ### BEGIN SOLUTION
    if not 0 <= count <= len(w):
        raise ValueError(f"count must be from 0 to {len(w)}, got {count}")
    w, hinv = w.clone(), torch.linalg.inv(h)
    free = torch.arange(len(w))
    removed: list[int] = []
    for _ in range(count):
        i = int((w[free] ** 2 / hinv.diagonal()).argmin())
        w[free] -= w[free[i]] / hinv[i, i] * hinv[:, i]
        w[free[i]] = 0.0
        removed.append(int(free[i]))
        hinv = eliminate(hinv, i)
        free = torch.cat([free[:i], free[i + 1 :]])
    return w, removed
    ### END SOLUTION
