"""AWQ: scale up the channels whose activations are large, clip what costs least, and fold the scales into the norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_quantize(w: Tensor, bits: int, group: int) -> Tensor:
    """Fake quantisation: w (out, in) rounded to what bits per weight can hold, in w's dtype (float32 or float64).

    Each row is cut into groups of `group` columns, with a grid of 2^bits values each; in % group != 0: ValueError. With
    lo and hi the least and the largest weight of the group (0 is *not* put in):

        scale = max((hi - lo) / (2^bits - 1), 1e-5)
        zero = clamp(-round(lo / scale), 0, 2^bits - 1)
        value = (clamp(round(w / scale) + zero, 0, 2^bits - 1) - zero) * scale           round: half to even

    w is not modified.
    """
    ### BEGIN SOLUTION
    if w.shape[1] % group:
        raise ValueError(f"{w.shape[1]} columns are not a multiple of the group of {group}")
    grouped = w.reshape(w.shape[0], -1, group)
    lo, hi = grouped.amin(dim=-1, keepdim=True), grouped.amax(dim=-1, keepdim=True)
    top = 2**bits - 1
    scale = ((hi - lo) / top).clamp(min=1e-5)
    zero = (-torch.round(lo / scale)).clamp(0, top)
    code = (torch.round(grouped / scale) + zero).clamp(0, top)
    return ((code - zero) * scale).reshape(w.shape)
    ### END SOLUTION


def search_scale(
    weights: Sequence[Tensor], x: Tensor, *, bits: int = 4, group: int = 128, grid: int = 20
) -> tuple[Tensor, float]:
    """The scales s (in,) that protect important channels, and the alpha they come from (arXiv:2306.00978, section 3.2).

    weights: one or more matrices (out_i, in) that read the same input, as q, k and v do: they share one s.
    x: (tokens, in), calibration inputs, tokens >= 1. All are of one dtype, float32 or float64, which s has too.
    group divides in (else ValueError).

    x W^T = (x / s) (W * s)^T, s multiplying W's columns, is exact until W * s is quantised. Candidates: with
    a_j = mean over tokens of |x_j|, for alpha = 0, 1 / grid, 2 / grid, ..., (grid - 1) / grid,

        s = max(a^alpha, 1e-4)                    0^0 = 1: alpha = 0 gives s = 1, plain rounding
        s = s / sqrt(max(s) * min(s))             else a common factor would drift

    The winner has the least loss, of equals the least alpha:

        loss = sum over the weights W of mean(((x / s) Q(W * s)^T - x W^T)^2)      mean over tokens and outputs,
                                                                                  Q = group_quantize with bits, group

    Channels without any activation are fine: s is finite and positive. Nothing is modified.

    Cost: at most (grid + 1) * 2 * tokens * out_i * in FLOPs of matrix products per matrix. It is checked with tokens
    and out_i of at least `in`.
    """
    ### BEGIN SOLUTION
    size = x.abs().mean(dim=0)
    wanted = [x @ w.T for w in weights]
    best_loss, best_s, best_alpha = float("inf"), torch.ones_like(size), 0.0
    for i in range(grid):
        alpha = i / grid
        s = size.pow(alpha).clamp(min=1e-4)
        s = s / (s.max() * s.min()).sqrt()
        loss = 0.0
        for w, y in zip(weights, wanted, strict=True):
            got = (x / s) @ group_quantize(w * s, bits, group).T
            loss += float((got - y).pow(2).mean())
        if loss < best_loss:
            best_loss, best_s, best_alpha = loss, s, alpha
    return best_s, best_alpha
    ### END SOLUTION


def search_clip(
    w: Tensor, x: Tensor, *, bits: int = 4, group: int = 128, steps: int = 20, max_shrink: float = 0.5
) -> Tensor:
    """Clip values (out, in // group): how far each group's range should be cut before it is quantised.

    w: (out, in), x: (tokens, in), of one dtype, float32 or float64, which the result has too. group divides in (else
    ValueError). A row's group with weights w_g reads the inputs x_g (tokens, group). With m = max |w_g|, try for
    i = 0, 1, ..., int(max_shrink * steps) - 1 (at least one)

        c = m * (1 - i / steps)
        error = mean over tokens of (x_g (q - w_g))^2       q = group_quantize(w_g clamped to -c .. c)

    and keep the c of least error, of equals the first. Cutting a range makes its grid finer and its ends wrong; what
    that is worth, the group's own partial output decides, each group by itself. (A range cut at both ends has
    lo / scale = -(2^bits - 1) / 2, a tie that the last bit decides; either way is fine.)

    Apply it as w_g.clamp(-c, c). Nothing is modified.

    Cost: no tensor made has more than tokens * out * (in / group) + in * out elements: no tensor has an axis for the
    candidates as well. It is checked with out of at least `group`.
    """
    ### BEGIN SOLUTION
    out, n = w.shape
    if n % group:
        raise ValueError(f"{n} columns are not a multiple of the group of {group}")
    grouped = w.reshape(out, -1, group)
    inputs = x.reshape(len(x), -1, group)
    # The mean of (x_g d)^2 over tokens is d^T G d: the tokens are gone before the search begins.
    moments = torch.einsum("tgi,tgj->gij", inputs, inputs) / len(x)
    largest = grouped.abs().amax(dim=-1)
    best_error, best_clip = torch.full_like(largest, torch.inf), largest
    for i in range(int(max_shrink * steps)):
        clip = largest * (1 - i / steps)
        limit = clip[..., None]
        clipped = grouped.clamp(-limit, limit).reshape(out, n)
        change = group_quantize(clipped, bits, group).reshape(grouped.shape) - grouped
        error = (torch.einsum("ogi,gij->ogj", change, moments) * change).sum(dim=-1)
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best_clip = torch.where(better, clip, best_clip)
    return best_clip
    ### END SOLUTION


def fold(norm_weight: Tensor, weights: Sequence[Tensor], s: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Put s into the weights and its inverse into the norm before them, where the division costs nothing.

    norm_weight: (in,) of an RMSNorm (a LayerNorm's bias would need the same). weights: matrices (out_i, in) that read
    its output. Returns (new norm weight, list of new matrices in the same order) such that the norm followed by each
    matrix computes what it did before, while the matrices are W * s. Inputs are not modified; the results are new
    tensors.
    """
    ### BEGIN SOLUTION
    return norm_weight / s, [w * s for w in weights]
    ### END SOLUTION
