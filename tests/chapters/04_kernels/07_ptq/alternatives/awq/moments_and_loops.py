"""Losses from second moments instead of outputs; rows and groups cut out by slices, partial outputs spelt out."""

import math

import torch


def group_quantize(w, bits, group):
    columns = w.size(1)
    if columns % group != 0:
        raise ValueError("group")
    levels = 2**bits - 1
    out = torch.zeros_like(w)
    for first in range(0, columns, group):
        part = w[:, first : first + group]
        lo, hi = torch.aminmax(part, dim=1, keepdim=True)
        step = torch.maximum((hi - lo) / levels, torch.full_like(lo, 1e-5))
        zero = torch.clamp(-torch.round(lo / step), 0, levels)
        out[:, first : first + group] = (torch.clamp(torch.round(part / step) + zero, 0, levels) - zero) * step
    return out


def search_scale(weights, x, *, bits=4, group=128, grid=20):
    moments = x.T @ x / x.shape[0]
    activity = x.abs().sum(0) / x.shape[0]
    candidates = []
    for i in range(grid):
        alpha = i / grid
        s = torch.clamp(activity**alpha, min=1e-4)
        s = s / math.sqrt(float(s.max()) * float(s.min()))
        loss = 0.0
        for w in weights:
            change = group_quantize(w * s[None, :], bits, group) / s[None, :] - w
            loss += ((change @ moments) * change).sum().item() / w.shape[0]
        candidates.append((loss, i, s))
    _, i, s = min(candidates, key=lambda c: c[:2])
    return s, i / grid


def search_clip(w, x, *, bits=4, group=128, steps=20, max_shrink=0.5):
    if w.shape[1] % group:
        raise ValueError("group")
    columns = []
    for first in range(0, w.shape[1], group):
        part, inputs = w[:, first : first + group], x[:, first : first + group]
        wanted = inputs @ part.T
        largest = part.abs().max(dim=1, keepdim=True).values
        tried = []
        for i in range(int(max_shrink * steps)):
            c = largest * (1 - i / steps)
            q = group_quantize(torch.max(torch.min(part, c), -c), bits, group)
            tried.append(((inputs @ q.T - wanted) ** 2).mean(0))
        best = torch.stack(tried).argmin(0)
        columns.append(largest[:, 0] * (1 - best.to(w.dtype) / steps))
    return torch.stack(columns, dim=1)


def fold(norm_weight, weights, s):
    return norm_weight * s.reciprocal(), [torch.einsum("oi,i->oi", w, s) for w in weights]
