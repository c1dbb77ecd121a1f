"""Rows of the transposed weights, each repaired when its turn comes, by one product with the block's errors so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Quantized:
    codes: Tensor
    scale: Tensor
    zero: Tensor


def hessian(batches: Iterable[Tensor]) -> Tensor:
    acc: Tensor | float = 0.0
    tokens = 0
    for x in batches:
        x64 = x.to(torch.float64)
        acc = acc + torch.einsum("ti,tj->ij", x64, x64)
        tokens += len(x)
    return acc * 2.0 / tokens


def _factor(h: Tensor) -> Tensor:
    n = h.shape[0]
    low = torch.linalg.cholesky(h.flip(0, 1))
    inv = torch.linalg.solve_triangular(low, torch.eye(n, dtype=h.dtype), upper=False)
    return inv.flip(0, 1)


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
    n_out, n_in = w.shape
    size = group_size or n_in
    n_groups = -(-n_in // size)
    top = 2**bits - 1
    dtype = w.dtype
    h = h.to(dtype).double()
    dead = torch.diagonal(h).eq(0)
    h = h + torch.diag(dead.double())
    d = torch.diagonal(h)
    perm = torch.argsort(d, descending=True, stable=True) if act_order else torch.arange(n_in)
    h = h + damp * d.mean() * torch.eye(n_in, dtype=h.dtype)
    wt = w.T.masked_fill(dead[:, None], 0)  # (in, out)

    scale = torch.ones(n_groups, n_out, dtype=dtype)
    zero = torch.zeros(n_groups, n_out, dtype=dtype)

    def make_grid(k: int, rows: Tensor) -> None:
        low, high = torch.aminmax(rows, dim=0)
        low, high = torch.minimum(low, torch.zeros_like(low)), torch.maximum(high, torch.zeros_like(high))
        s = (high - low) / top
        s[s == 0] = 1
        scale[k] = s
        zero[k] = (-low / s).round()

    if act_order:
        for k in range(n_groups):
            make_grid(k, wt[k * size : (k + 1) * size])

    u = _factor(h[perm[:, None], perm[None, :]]).to(dtype)
    wt = wt[perm]
    codes = torch.empty(n_in, n_out, dtype=torch.uint8)
    for a in range(0, n_in, block):
        b = min(a + block, n_in)
        err = torch.zeros(b - a, n_out, dtype=dtype)
        for j in range(a, b):
            col = int(perm[j])
            k = col // size
            # repair lazily, from the block's errors so far: nothing inside the block is written before it is needed
            cur = wt[j] - u[a:j, j] @ err[: j - a]
            if not act_order and col % size == 0:
                stop = min(col + size, n_in)
                make_grid(k, wt[j:stop] - u[a:j, j:stop].T @ err[: j - a])
            code = (cur / scale[k]).round().add(zero[k]).clamp(0, top)
            codes[col] = code.to(torch.uint8)
            err[j - a] = (cur - (code - zero[k]) * scale[k]) / u[j, j]
        if b < n_in:
            wt[b:] -= u[a:b, b:].T @ err
    return Quantized(codes.T.contiguous(), scale.T.contiguous(), zero.T.contiguous())


def dequantize(q: Quantized, group_size: int | None) -> Tensor:
    if group_size is None:
        return (q.codes - q.zero) * q.scale
    parts = q.codes.split(group_size, dim=1)
    return torch.cat([(c - q.zero[:, i, None]) * q.scale[:, i, None] for i, c in enumerate(parts)], 1)
