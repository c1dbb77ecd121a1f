"""Scales and quotients in float64, an int64 product in numpy; smooth_scale in float32 throughout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor


def calibrate(batches: Iterable[Tensor]) -> Tensor:
    it = iter(batches)
    try:
        first = next(it)
    except StopIteration:
        raise ValueError("no batch") from None
    best = first.float().abs().max(dim=0).values
    for x in it:
        best = best.maximum(x.float().abs().max(dim=0).values)
    return best


def smooth_scale(act_absmax: Tensor, weights: Sequence[Tensor], alpha: float = 0.5) -> Tensor:
    wmax = torch.cat([w.abs().max(dim=0, keepdim=True).values.float() for w in weights]).max(dim=0).values
    s = torch.pow(act_absmax, alpha) / torch.pow(wmax, 1 - alpha)
    s = torch.clamp(s, min=1e-5)
    dead = torch.logical_or(act_absmax == 0, wmax == 0)
    return torch.where(dead, torch.ones_like(s), s)


def smooth(
    norm_weight: Tensor, norm_bias: Tensor | None, weights: Sequence[Tensor], s: Tensor
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    def wide(t: Tensor) -> Tensor:
        return t if t.dtype == torch.float64 else t.float()

    new = [(wide(w) * s).to(w.dtype) for w in weights]
    bias = norm_bias if norm_bias is None else (wide(norm_bias) / s).to(norm_bias.dtype)
    return (wide(norm_weight) / s).to(norm_weight.dtype), bias, new


def w8a8_linear(x: Tensor, w: Tensor) -> Tensor:
    def quant(t: Tensor) -> tuple[np.ndarray, np.ndarray]:
        a = t.detach().numpy().astype(np.float64)
        scale = np.abs(a).max(axis=1, keepdims=True) / 127
        scale[scale == 0] = 1
        return np.rint(a / scale).astype(np.int64), scale

    cx, sx = quant(x)
    cw, sw = quant(w)
    return torch.from_numpy((cx @ cw.T * sx * sw.T).astype(np.float32))
