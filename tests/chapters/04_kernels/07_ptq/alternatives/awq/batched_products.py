"""Losses by x^T x; clipping by bmm over groups against the exact outputs; codes clamped around 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def _check(n: int, group: int) -> None:
    if n % group:
        raise ValueError(f"{n} columns are no multiple of {group}")


def group_quantize(w: Tensor, bits: int, group: int) -> Tensor:
    _check(w.shape[-1], group)
    g = w.unflatten(-1, (-1, group))
    lo = g.min(dim=-1, keepdim=True).values
    hi = g.max(dim=-1, keepdim=True).values
    n = 2**bits - 1
    scale = torch.clamp_min((hi - lo) / n, 1e-5)
    zero = torch.clamp(-torch.round(lo / scale), min=0, max=n)
    # clamp(r + z, 0, n) - z  ==  clamp(r, -z, n - z)
    r = torch.clamp(torch.round(g / scale), -zero, n - zero)
    return (r * scale).flatten(-2)


def search_scale(
    weights: Sequence[Tensor], x: Tensor, *, bits: int = 4, group: int = 128, grid: int = 20
) -> tuple[Tensor, float]:
    _check(x.shape[1], group)
    h = x.T @ x / x.shape[0]
    a = torch.mean(torch.abs(x), dim=0)

    def candidate(alpha: float) -> Tensor:
        s = torch.clamp(a**alpha, min=1e-4)
        return s / torch.sqrt(s.amax() * s.amin())

    def loss(s: Tensor) -> float:
        total = 0.0
        for w in weights:
            d = group_quantize(w * s, bits, group) / s - w
            total += float(torch.sum((d @ h) * d) / w.shape[0])
        return total

    alphas = [i / grid for i in range(grid)]
    best = min(alphas, key=lambda alpha: loss(candidate(alpha)))
    return candidate(best), best


def search_clip(
    w: Tensor, x: Tensor, *, bits: int = 4, group: int = 128, steps: int = 20, max_shrink: float = 0.5
) -> Tensor:
    _check(w.shape[1], group)
    xg = x.unflatten(1, (-1, group)).permute(1, 0, 2)  # (G, tokens, group)
    wg = w.unflatten(1, (-1, group)).permute(1, 2, 0)  # (G, group, out)
    exact = torch.bmm(xg, wg)
    m = wg.abs().amax(1)  # (G, out)
    best = m
    least = None
    for i in range(max(int(max_shrink * steps), 1)):
        c = m * (1 - i / steps)
        cut = wg.clamp(-c[:, None], c[:, None])
        q = group_quantize(cut.transpose(1, 2), bits, group).transpose(1, 2)
        err = (torch.bmm(xg, q) - exact).pow(2).mean(1)
        if least is None:
            least = err
            continue
        less = err < least
        best = torch.where(less, c, best)
        least = torch.minimum(least, err)
    return best.T.contiguous()


def fold(norm_weight: Tensor, weights: Sequence[Tensor], s: Tensor) -> tuple[Tensor, list[Tensor]]:
    return torch.div(norm_weight, s), list(map(s.mul, weights))
