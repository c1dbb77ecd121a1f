"""The factor without an inverse (Cholesky of the flipped matrix), and blocks that also end where a group begins."""

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
    count, mean = 0, None
    for batch in batches:
        if not len(batch):
            continue
        rows = batch.to(torch.float64)
        moment = torch.einsum("ti,tj->ij", rows, rows) / len(rows)
        count += len(rows)
        mean = moment if mean is None else mean + (moment - mean) * (len(rows) / count)
    return 2.0 * mean


def minmax(w, bits):
    zeros = torch.zeros(w.shape[0], dtype=w.dtype)
    top = torch.maximum(w.max(1).values, zeros)
    bottom = torch.minimum(w.min(1).values, zeros)
    step = (top - bottom) / (2**bits - 1)
    step[step == 0] = 1.0
    return step, (-bottom / step).round()


def gptq(w, h, *, bits=4, group_size=None, block=128, damp=0.01, act_order=False):
    dtype = w.dtype
    rows, cols = w.shape
    group = group_size if group_size is not None else cols
    h = h.double().clone()
    weights = w.clone()
    for j in range(cols):
        if h[j, j] == 0.0:
            h[j, j] = 1.0
            weights[:, j] = 0.0
    perm = sorted(range(cols), key=lambda j: h[j, j].item(), reverse=True) if act_order else list(range(cols))
    h = h + torch.diag(torch.full((cols,), damp * h.trace().item() / cols, dtype=h.dtype))
    groups = (cols + group - 1) // group
    scale = torch.ones(rows, groups, dtype=dtype)
    zero = torch.zeros(rows, groups, dtype=dtype)
    if act_order:
        for g in range(groups):
            scale[:, g], zero[:, g] = minmax(weights[:, g * group : (g + 1) * group], bits)
    index = torch.tensor(perm)
    h = h[index[:, None], index[None, :]]
    # h = L' L'^T backwards, so h^-1 = U^T U with U the inverse of the flipped factor: unit directions are its rows.
    flipped = torch.linalg.cholesky(h.flip(0, 1)).flip(0, 1)
    u = torch.linalg.solve_triangular(flipped, torch.eye(cols, dtype=h.dtype), upper=True)
    direction = (u / u.diagonal()[:, None]).to(dtype)
    work = weights[:, index].T.contiguous()  # (cols, rows): a column is a row now
    codes = torch.zeros(cols, rows, dtype=torch.uint8)
    begin = 0
    while begin < cols:
        stop = min((begin // block + 1) * block, cols)
        if not act_order:
            for j in range(begin + 1, stop):
                if j % group == 0 and j + group > stop:
                    stop = j
                    break
        residual = torch.zeros(stop - begin, rows, dtype=dtype)
        for j in range(begin, stop):
            g = perm[j] // group
            if not act_order and j % group == 0:
                scale[:, g], zero[:, g] = minmax(work[j : j + group].T, bits)
            levels = (work[j] / scale[:, g]).round().add(zero[:, g]).clamp(0, 2**bits - 1)
            codes[perm[j]] = levels.to(torch.uint8)
            residual[j - begin] = work[j] - scale[:, g] * (levels - zero[:, g])
            work[j + 1 : stop] -= direction[j, j + 1 : stop, None] * residual[j - begin]
        work[stop:] -= direction[begin:stop, stop:].T @ residual
        begin = stop
    return Quantized(codes.T.contiguous(), scale, zero)


def dequantize(q, group_size):
    cols = q.codes.shape[1]
    size = group_size or cols
    out = torch.empty(q.codes.shape, dtype=q.scale.dtype)
    for g in range(q.scale.shape[1]):
        part = slice(g * size, min((g + 1) * size, cols))
        out[:, part] = (q.codes[:, part] - q.zero[:, g : g + 1]) * q.scale[:, g : g + 1]
    return out
