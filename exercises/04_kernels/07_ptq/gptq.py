"""GPTQ: OBQ in a fixed column order for all rows at once, through a Cholesky factor and in lazy batches."""

# Not allowed here, in any form: torch.linalg.inv, Tensor.inverse, torch.inverse, torch.linalg.solve.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Quantized:
    """A weight matrix (out, in) on grids of 2^bits values: one grid for each row and each group of columns."""

    codes: Tensor
    """(out, in) uint8, in the columns' original order"""
    scale: Tensor
    """(out, groups), in the weights' dtype: distance of neighbouring values"""
    zero: Tensor
    """(out, groups), integers in the weights' dtype: the code of the value 0"""


def hessian(batches: Iterable[Tensor]) -> Tensor:
    """(2 / total number of tokens) * sum of x^T x over all batches: (in, in) float64.

    batches yields tensors (tokens, in) of one width and of any float dtype; numbers of tokens may differ, and be 0, but
    there is at least one token in all. It may be a generator, and is gone through once. Each batch is widened to
    float64 before it is multiplied (float16 sums overflow beyond 65504).

    Cost: batches are not kept or joined; no tensor made is larger than the largest batch or than in * in.
    """
    raise NotImplementedError("4.7/gptq: write hessian")


def gptq(
    w: Tensor,
    h: Tensor,
    *,
    bits: int = 4,
    group_size: int | None = None,
    block: int = 128,
    damp: float = 0.01,
    act_order: bool = False,
) -> Quantized:
    """Quantise w (out, in) so that the layer's outputs change little: tr((w - Q) h (w - Q)^T) is kept small
    (arXiv:2210.17323).

    w: float32 or float64. h: (in, in), float32 or float64, symmetric positive semidefinite, as `hessian` makes it.
    bits: 1 to 8. Both are taken to w's dtype, and scale and zero are returned in it (the factor may be computed in
    float64). w and h are not modified.

    1. Dead columns. Where h[j, j] = 0 no input ever reaches column j: set h[j, j] = 1 and all its weights to 0.
    2. Damping. Then add damp * mean(diagonal of h) to the diagonal of h.
    3. Columns are taken from left to right, or, with act_order, by falling h[j, j], as steps 1 and 2 left it (of equals
       the lower index first). Column j goes to its grid; with q_j its values there, every column k that is still to
       come is repaired:

           w_k -= (w_j - q_j) * Hinv[j, k] / Hinv[j, j]

       where Hinv is the inverse of h over column j and those still to come, as in OBQ. All rows share it. With rows and
       columns of h in the order in which they are taken, let U be upper triangular with U^T U = h^-1: then row j of U,
       from the diagonal on, is Hinv[j, :] / sqrt(Hinv[j, j]) of that step.
    4. The grid. Columns g * group_size .. (g + 1) * group_size - 1 (original numbering) are group g, the last group may
       be shorter; group_size None: one group. A group has in each row, with the minimum and maximum over its weights,

           lo = min(w, 0), hi = max(w, 0)            0 is always on the grid
           scale = (hi - lo) / (2^bits - 1), or 1 where that is 0
           zero = round(-lo / scale)
           code = clamp(round(w / scale) + zero, 0, 2^bits - 1),  value = (code - zero) * scale

       (round: half to even). From which weights?
       - act_order False: from the group's weights as repaired by all columns before the group, at the moment when its
         first column is taken.
       - act_order True: from the weights before any repair, dead columns being 0 already ("static groups"). So codes in
         the original order and these grids are all that a run-time kernel needs.

    block: how many columns are treated together. It does not change the result, only the cost: the repairs of a block's
    columns are applied at once within the block, and to the columns behind it in one product per block,

        w[:, end:] -= E U[start:end, end:]        E (out, block), column j being (w_j - q_j) / U[j, j].

    group_size need not divide `in` or block, nor block group_size or `in`; each may be larger than `in`.

    Cost: at most three factorisations, inversions or triangular solves in all. Operations that return a new tensor of
    more than out * max(block, group_size) elements (views and in-place operations do not): at most 4 per block and 40
    besides.
    """
    raise NotImplementedError("4.7/gptq: write gptq")


def dequantize(q: Quantized, group_size: int | None) -> Tensor:
    """(codes - zero) * scale, each column with the grid of its group: (out, in) in the dtype of q.scale.

    group_size as it was given to `gptq`; None: one group. The last group may be shorter.
    """
    raise NotImplementedError("4.7/gptq: write dequantize")
