"""Tensor operations: pointer jumping for depths, paths as an (n, depth) table, masks by scatter; float64 lexsort for select_tree."""

from __future__ import annotations

import numpy as np
import torch


def tree_from_paths(paths):
    todo = sorted(set(paths), key=lambda p: (len(p), p))
    if any(len(p) == 0 for p in todo):
        raise ValueError("empty path")
    try:
        return [-1] + [0 if len(p) == 1 else 1 + todo.index(p[:-1]) for p in todo]
    except ValueError:
        raise ValueError("a path without its parent") from None


def _table(parents):
    """(n, max depth + 1): the path from node i up to the root, then -1."""
    up = torch.as_tensor(list(parents) + [-1])  # the last entry serves index -1
    cols = [torch.arange(len(parents))]
    while True:
        nxt = up[cols[-1]]
        if (nxt < 0).all():
            return torch.stack(cols, dim=1)
        cols.append(nxt)


def depths(parents):
    return ((_table(parents) >= 0).sum(1) - 1).tolist()


def tree_mask(parents, prefix_len):
    n = len(parents)
    table = _table(parents)
    mask = torch.zeros(n, n + 1, dtype=torch.bool).scatter_(1, table.where(table >= 0, torch.tensor(n)), True)
    return torch.nn.functional.pad(mask[:, :n], (prefix_len, 0), value=True)


def retrieve_indices(parents):
    table = _table(parents)
    leaf = torch.ones(len(parents), dtype=torch.bool)
    for p in parents:
        if p >= 0:
            leaf[p] = False
    rows = table[leaf]
    out = torch.full_like(rows, -1)
    for r, row in enumerate(rows):
        path = row[row >= 0].flip(0)
        out[r, : len(path)] = path
    return out


def verify_greedy(parents, tokens, argmax):
    best = {}
    for i in range(len(parents) - 1, 0, -1):
        best[parents[i], tokens[i]] = i
    path = [0]
    while (path[-1], argmax[path[-1]]) in best:
        path.append(best[path[-1], argmax[path[-1]]])
    return path[1:], argmax[path[-1]]


def compact_kv(kv, prefix_len, accepted):
    keep = torch.cat([torch.arange(prefix_len + 1), prefix_len + torch.tensor(list(accepted), dtype=torch.long)])
    return kv[..., keep, :]


def select_tree(parents, logp, budget):
    value = np.zeros(len(parents))
    for i, p in enumerate(parents):
        if p >= 0:
            value[i] = value[p] + logp[i]
    value[0] = np.inf
    chosen = np.sort(np.lexsort((np.arange(len(value)), -value))[: budget + 1])
    return chosen.tolist(), [-1] + [int(np.searchsorted(chosen, parents[i])) for i in chosen[1:]]
