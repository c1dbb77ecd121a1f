"""SmoothQuant: move the outliers of the activations into the weights, then multiply in int8 (arXiv:2211.10438).

A linear layer y = x w^T (w is (out, in), as in nn.Linear) does not change when input channel j of x is divided by s_j
and column j of w is multiplied by it. That freedom is used to make both sides easy for int8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def calibrate(batches: Iterable[Tensor]) -> Tensor:
    """The largest absolute value that each input channel takes in any token of any batch.

    batches: one or more tensors (tokens, in), tokens >= 1 and not the same in every batch, float16, bfloat16, float32
    or float64, any strides. They may come from a generator: it is gone through once. No batch at all: ValueError.

    Returns (in,) float32. Cost: calibration data may be endless, so no tensor is made that is larger than the largest
    batch, however many batches there are.
    """
    ### BEGIN SOLUTION
    largest = None
    for x in batches:
        peak = x.abs().amax(0).float()
        largest = peak if largest is None else torch.maximum(largest, peak)
    if largest is None:
        raise ValueError("no batch to calibrate on")
    return largest
    ### END SOLUTION


def smooth_scale(act_absmax: Tensor, weights: Sequence[Tensor], alpha: float = 0.5) -> Tensor:
    """How much each channel of the activations is to be divided by: s_j = max|X_j|^alpha / max|W_j|^(1 - alpha).

    act_absmax (in,) float32 holds max|X_j| as calibrate returns it. weights: one or more matrices (out_i, in), float16,
    float32 or float64, with different out_i: all layers that read this input (q, k and v projections, say). max|W_j| is
    the largest absolute value in column j of any of them: one input can be divided by one s only. alpha from 0 (leaves
    the activations the difficulty) to 1 (gives the weights all of it). At 0.5 the maximum of x_j / s_j and that of
    w_j * s_j are equal: both become the geometric mean of the two.

    Returns (in,) float32, to a relative error of 1e-5. s is never below 1e-5: smaller ones become 1e-5. (Only s is
    bounded; the maxima enter the formula as they are.) A channel in which max|X_j| or max|W_j| is 0 gets exactly 1,
    whatever alpha is: there is nothing to balance.
    """
    ### BEGIN SOLUTION
    weight_absmax = torch.stack([w.abs().amax(0).float() for w in weights]).amax(0)
    s = act_absmax.pow(alpha) / weight_absmax.pow(1 - alpha)
    dead = (act_absmax == 0) | (weight_absmax == 0)
    return torch.where(dead, 1.0, s.clamp(min=1e-5))
    ### END SOLUTION


def smooth(
    norm_weight: Tensor, norm_bias: Tensor | None, weights: Sequence[Tensor], s: Tensor
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """The norm and the layers behind it with s folded in: nothing is left to do at run time.

    The layers read x = normalised * norm_weight + norm_bias, elementwise over the in channels: a LayerNorm, or an
    RMSNorm where norm_bias is None. norm_weight and norm_bias (in,), weights (out_i, in), s (in,) float32, no entry 0.

    Returns (norm_weight, norm_bias or None, list of weights) such that the norm now puts out x / s, and every layer
    gives what it gave before: in float64 to 1e-10. All are new tensors, each in the dtype of the one that it replaces
    (float16, float32 or float64; computed in at least float32 and rounded once).
    """
    ### BEGIN SOLUTION
    folded_bias = None if norm_bias is None else (norm_bias / s).to(norm_bias.dtype)
    return (norm_weight / s).to(norm_weight.dtype), folded_bias, [(w * s).to(w.dtype) for w in weights]
    ### END SOLUTION


def w8a8_linear(x: Tensor, w: Tensor) -> Tensor:
    """x w^T as int8 hardware computes it: 8-bit weights, 8-bit activations, sums in int32.

    x (tokens, in) and w (out, in), float32, any strides. Both are quantised symmetrically with a scale per row, so one
    per token of x and one per output channel of w:

        scale = max|row| / 127, or 1 if the row is all zeros
        code  = row / scale, rounded to the nearest integer (half to even): an integer in -127 .. 127
        y[t, o] = (sum over j of code_x[t, j] * code_w[o, j]) * scale_x[t] * scale_w[o]

    The scales may be float32 or float64.

    The sum is exact: it is that of integers, and fits in int32 for in <= 133,000. Products of dequantised numbers,
    (code * scale) * (code * scale), would round at every step, which int8 hardware does not; and codes that sum to
    exactly 0 must give exactly 0.

    Returns (tokens, out) float32. The three factors are rounded as float32 rounds: each element to 1e-6 of itself, and
    where both scales are 1 it is the integer sum, rounded to the nearest float32.
    """
    ### BEGIN SOLUTION
    code_x, scale_x = _quantize_rows(x)
    code_w, scale_w = _quantize_rows(w)
    # Widened before they are multiplied: int8 would overflow at the first product. A GPU takes the int8 codes as they
    # are and adds in int32 (torch._int_mm).
    sums = code_x.int() @ code_w.int().T
    return sums * scale_x * scale_w.T
    ### END SOLUTION


### BEGIN SOLUTION
def _quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, n) -> int8 codes (rows, n) and scales (rows, 1)."""
    absmax = x.abs().amax(1, keepdim=True)
    scale = torch.where(absmax == 0, 1.0, absmax / 127)
    return (x / scale).round().to(torch.int8), scale


### END SOLUTION
