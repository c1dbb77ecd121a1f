"""All matrices stacked, the difference times x in one product; clipping by Gram matrices, group after group."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_quantize(w: Tensor, bits: int, group: int) -> Tensor:
    out, n = w.shape
    if n % group != 0:
        raise ValueError("group must divide the number of columns")
    cols = []
    for part in w.split(group, dim=1):
        lo, hi = torch.aminmax(part, dim=1, keepdim=True)
        scale = torch.maximum((hi - lo) / (2**bits - 1), torch.tensor(1e-5, dtype=w.dtype))
        zero = torch.clamp(-(lo / scale).round(), 0, 2**bits - 1)
        code = torch.clamp((part / scale).round() + zero, 0, 2**bits - 1)
        cols.append(scale * (code - zero))
    return torch.cat(cols, 1)


def search_scale(
    weights: Sequence[Tensor], x: Tensor, *, bits: int = 4, group: int = 128, grid: int = 20
) -> tuple[Tensor, float]:
    if x.shape[1] % group != 0:
        raise ValueError("group must divide the number of columns")
    big = torch.cat(list(weights))
    sizes = [len(w) for w in weights]
    mag = x.abs().mean(dim=0)
    scales, losses = [], []
    for i in range(grid):
        s = torch.clamp_min(mag.pow(i / grid), 1e-4)
        s = s / torch.sqrt(s.max() * s.min())
        diff = group_quantize(big * s, bits, group) / s - big
        err = (x @ diff.T).square().mean(0)  # one per output
        losses.append(sum(e.mean() for e in err.split(sizes)))
        scales.append(s)
    i = min(range(grid), key=lambda k: float(losses[k]))
    return scales[i], i / grid


def search_clip(
    w: Tensor, x: Tensor, *, bits: int = 4, group: int = 128, steps: int = 20, max_shrink: float = 0.5
) -> Tensor:
    out, n = w.shape
    if n % group != 0:
        raise ValueError("group must divide the number of columns")
    result = torch.empty(out, n // group, dtype=w.dtype)
    tries = max(int(max_shrink * steps), 1)
    for g in range(n // group):
        wg = w[:, g * group : (g + 1) * group]
        xg = x[:, g * group : (g + 1) * group]
        gram = xg.T @ xg / len(xg)
        m = wg.abs().max(dim=1).values
        least = None
        for i in range(tries):
            c = m * (1 - i / steps)
            d = group_quantize(wg.clamp(-c[:, None], c[:, None]), bits, group) - wg
            err = ((d @ gram) * d).sum(1)
            if least is None:
                least, keep = err, c
            else:
                take = err < least
                least, keep = least.where(~take, err), keep.where(~take, c)
        result[:, g] = keep
    return result


def fold(norm_weight: Tensor, weights: Sequence[Tensor], s: Tensor) -> tuple[Tensor, list[Tensor]]:
    return norm_weight * s.reciprocal(), [torch.einsum("oi,i->oi", w, s) for w in weights]
