"""No shrinking: the inverse keeps its size, eliminated rows become zero, and taken weights cost infinity."""

import torch


def eliminate(hinv, p):
    n = hinv.shape[0]
    keep = [i for i in range(n) if i != p]
    a = hinv[keep][:, keep]
    b = hinv[keep, p]
    return a - b[:, None] * b[None, :] / hinv[p, p]


def round_to_grid(w, scale, zero, bits):
    lowest, highest = -zero, 2**bits - 1 - zero
    return torch.round(w / scale).clamp(lowest, highest) * scale


def _fix_in_turn(w, h, target, steps):
    n = w.numel()
    w = w.clone()
    hinv = torch.cholesky_inverse(torch.linalg.cholesky(h))
    taken = [False] * n
    order, costs = [], []
    for _ in range(steps):
        best, best_cost, best_q = -1, float("inf"), 0.0
        goal = target(w)
        for p in range(n):
            if taken[p]:
                continue
            cost = float((w[p] - goal[p]) ** 2 / hinv[p, p])
            if cost < best_cost:
                best, best_cost, best_q = p, cost, float(goal[p])
        column = hinv[:, best].clone()
        step = (w[best] - best_q) / column[best] * column
        step[torch.tensor(taken)] = 0.0
        w = w - step
        w[best] = best_q
        hinv = hinv - torch.outer(column, column) / column[best]
        hinv[best, :] = 0.0
        hinv[:, best] = 0.0
        taken[best] = True
        order.append(best)
        costs.append(best_cost)
    return w, order, costs


def obq_row(w, h, *, scale, zero, bits):
    return _fix_in_turn(w, h, lambda row: round_to_grid(row, scale, zero, bits), w.numel())


def obs_prune(w, h, count):
    if count < 0 or count > w.numel():
        raise ValueError("count")
    row, order, _ = _fix_in_turn(w, h, torch.zeros_like, count)
    return row, order
