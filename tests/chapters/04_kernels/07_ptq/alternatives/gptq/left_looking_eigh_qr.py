"""Left-looking: a block is repaired by one product when it is reached; the factor from eigh and QR."""

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
    h = None
    seen = 0
    for x in batches:
        if h is None:
            h = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64)
        x = x.to(torch.float64)
        h += x.mT.matmul(x)
        seen += x.size(0)
    return h.mul(2).div(seen)


def _upper(h: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(h)
    r = torch.linalg.qr((vectors / values.sqrt()).T, mode="r").R
    return r * torch.sign(torch.diagonal(r))[:, None]


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
    rows, n = w.shape
    gs = n if group_size is None else group_size
    hi_code = 2**bits - 1
    h = h.to(w.dtype).to(torch.float64)
    unused = h.diag() == 0
    w = torch.where(unused, 0, w)
    d = torch.where(unused, 1, h.diag())
    h = h - torch.diag(h.diag()) + torch.diag(d + damp * d.mean())

    def fit(part: Tensor) -> tuple[Tensor, Tensor]:
        lo = torch.clamp(part.min(dim=1).values, max=0)
        hi = torch.clamp(part.max(dim=1).values, min=0)
        s = (hi - lo) / hi_code
        s = s + (s == 0)
        return s, torch.round(-lo / s)

    if act_order:
        order = sorted(range(n), key=lambda j: -float(h[j, j]))
        grids = {g: fit(w[:, g * gs : (g + 1) * gs]) for g in range((n + gs - 1) // gs)}
    else:
        order = list(range(n))
        grids = {}
    u = _upper(h[order, :][:, order]).to(w.dtype)
    w = w[:, order]
    errors = torch.zeros_like(w)
    codes = torch.zeros_like(w, dtype=torch.uint8)
    for a in range(0, n, block):
        b = min(n, a + block)
        now = w[:, a:b] - errors[:, :a] @ u[:a, a:b]
        for j in range(a, b):
            col = order[j]
            g = col // gs
            if g not in grids:
                stop = min(n, j + gs)
                grids[g] = fit(w[:, j:stop] - errors[:, :j] @ u[:j, j:stop])
            s, z = grids[g]
            c = (torch.round(now[:, j - a] / s) + z).clamp(0, hi_code)
            codes[:, col] = c.to(torch.uint8)
            errors[:, j] = (now[:, j - a] - (c - z) * s) / u[j, j]
            now[:, j - a :] -= errors[:, j, None] * u[j, None, j:b]
    keys = sorted(grids)
    return Quantized(codes, torch.stack([grids[g][0] for g in keys], 1), torch.stack([grids[g][1] for g in keys], 1))


def dequantize(q: Quantized, group_size: int | None) -> Tensor:
    n = q.codes.shape[1]
    gs = n if group_size is None else group_size
    s = q.scale.repeat_interleave(gs, dim=1)[:, :n]
    z = q.zero.repeat_interleave(gs, dim=1)[:, :n]
    return (q.codes.to(s.dtype) - z) * s
