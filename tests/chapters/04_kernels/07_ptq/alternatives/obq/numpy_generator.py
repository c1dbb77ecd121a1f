"""All in numpy: a generator of steps, the chosen variable deleted from values, indices and inverse."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor


def _drop(a: np.ndarray, p: int) -> np.ndarray:
    full = a - np.outer(a[:, p], a[p, :]) / a[p, p]
    return np.delete(np.delete(full, p, axis=0), p, axis=1)


def eliminate(hinv: Tensor, p: int) -> Tensor:
    return torch.from_numpy(_drop(hinv.numpy(), p))


def round_to_grid(w: Tensor, scale: float, zero: int, bits: int) -> Tensor:
    lowest, highest = -zero, 2**bits - 1 - zero
    return torch.round(w / scale).clamp(lowest, highest) * scale


def _steps(values: np.ndarray, h: np.ndarray, to_grid):
    """yields (index, final value, cost, values of the others, their indices)"""
    hinv = cho_solve(cho_factor(h), np.eye(len(h)))
    idx = np.arange(len(values))
    while len(idx):
        q = to_grid(values)
        cost = (values - q) ** 2 / np.diag(hinv)
        p = int(np.argmin(cost))
        moved = values - (values[p] - q[p]) / hinv[p, p] * hinv[:, p]
        values, here, idx = np.delete(moved, p), int(idx[p]), np.delete(idx, p)
        hinv = _drop(hinv, p)
        yield here, float(q[p]), float(cost[p]), values, idx


def obq_row(w: Tensor, h: Tensor, *, scale: float, zero: int, bits: int) -> tuple[Tensor, list[int], list[float]]:
    def to_grid(v):
        return round_to_grid(torch.from_numpy(v), scale, zero, bits).numpy()

    row, order, costs = np.zeros(len(w)), [], []
    for i, q, c, _, _ in _steps(w.numpy().copy(), h.numpy(), to_grid):
        row[i] = q
        order.append(i)
        costs.append(c)
    return torch.from_numpy(row), order, costs


def obs_prune(w: Tensor, h: Tensor, count: int) -> tuple[Tensor, list[int]]:
    if count not in range(len(w) + 1):
        raise ValueError(count)
    row, order = w.numpy().copy(), []
    steps = _steps(row, h.numpy(), np.zeros_like)
    for _ in range(count):
        i, _, _, rest, idx = next(steps)
        row = np.zeros(len(w))
        row[idx] = rest
        order.append(i)
    return torch.from_numpy(row), order
