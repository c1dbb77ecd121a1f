"""Loops and torch's own int8 product; reciprocals instead of divisions."""

from __future__ import annotations

import torch


def calibrate(batches):
    iterator = iter(batches)
    try:
        first = next(iterator)
    except StopIteration:
        raise ValueError("no data") from None
    highest, lowest = first.max(0)[0], first.min(0)[0]
    for batch in iterator:
        highest = torch.max(highest, batch.max(0)[0])
        lowest = torch.min(lowest, batch.min(0)[0])
    return torch.max(highest, -lowest).float()


def smooth_scale(act_absmax, weights, alpha=0.5):
    peak = torch.zeros_like(act_absmax)
    for w in weights:
        peak = torch.maximum(peak, w.abs().max(0)[0].to(peak.dtype))
    nothing = (act_absmax == 0).logical_or(peak == 0)
    s = act_absmax**alpha * peak ** (alpha - 1)
    s = torch.maximum(s, torch.tensor(1e-5))
    s[nothing] = 1
    return s


def smooth(norm_weight, norm_bias, weights, s):
    inverse = 1 / s.double()
    new_weight = (norm_weight * inverse).type_as(norm_weight)
    new_bias = None
    if norm_bias is not None:
        new_bias = (norm_bias * inverse).type_as(norm_bias)
    return new_weight, new_bias, [(w.double() @ torch.diag(s.double())).type_as(w) for w in weights]


def _int8(rows):
    factors, codes = [], []
    for row in rows:
        peak = row.abs().max().item()
        factor = peak / 127 if peak else 1.0
        factors.append(factor)
        codes.append((row.double() / factor).round().to(torch.int8))
    return torch.stack(codes), torch.tensor(factors)


def w8a8_linear(x, w):
    a, p = _int8(x)
    b, q = _int8(w)
    out = torch.empty(len(a), len(b))
    for i, row in enumerate(a):
        # one token at a time: products in int16, sums in int64
        sums = (row.to(torch.int16) * b.to(torch.int16)).sum(1)
        out[i] = sums * (p[i] * q)
    return out
