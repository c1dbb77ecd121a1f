"""A Python list of the free indices, an inverse through Cholesky, and one loop for quantising and pruning."""

from __future__ import annotations

import torch
from torch import Tensor


def eliminate(hinv: Tensor, p: int) -> Tensor:
    keep = [i for i in range(hinv.shape[0]) if i != p]
    full = hinv - torch.outer(hinv[:, p], hinv[p]) / hinv[p, p]
    return full[keep][:, keep]


def round_to_grid(w: Tensor, scale: float, zero: int, bits: int) -> Tensor:
    code = torch.clamp(torch.round(w / scale) + zero, 0, 2**bits - 1)
    return scale * (code - zero)


def _greedy(w: Tensor, h: Tensor, target, count: int):
    row = w.clone()
    hinv = torch.cholesky_inverse(torch.linalg.cholesky(h))
    free = list(range(len(w)))
    order, costs = [], []
    for _ in range(count):
        cur = row[free]
        err = cur - target(cur)
        cost = (err**2 / hinv.diagonal()).tolist()
        p = min(range(len(free)), key=cost.__getitem__)
        q = target(cur)[p]
        row[free] = cur - err[p] / hinv[p, p] * hinv[:, p]
        row[free[p]] = q
        order.append(free.pop(p))
        costs.append(cost[p])
        hinv = eliminate(hinv, p)
    return row, order, costs


def obq_row(w: Tensor, h: Tensor, *, scale: float, zero: int, bits: int) -> tuple[Tensor, list[int], list[float]]:
    return _greedy(w, h, lambda v: round_to_grid(v, scale, zero, bits), len(w))


def obs_prune(w: Tensor, h: Tensor, count: int) -> tuple[Tensor, list[int]]:
    if not 0 <= count <= len(w):
        raise ValueError(f"count must be in 0..{len(w)}, got {count}")
    row, order, _ = _greedy(w, h, torch.zeros_like, count)
    return row, order
