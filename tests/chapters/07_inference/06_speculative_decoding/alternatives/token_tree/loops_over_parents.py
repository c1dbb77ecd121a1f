"""Loops over parents, dict of path -> number, sort by (-value, index)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def tree_from_paths(paths: Sequence[tuple[int, ...]]) -> list[int]:
    number = {(): 0}
    parents = [-1]
    for path in sorted({tuple(p) for p in paths}, key=lambda p: (len(p), p)):
        if not path:
            raise ValueError("the empty path is the root")
        if path[:-1] not in number:
            raise ValueError(f"the parent of {path} is missing")
        number[path] = len(parents)
        parents.append(number[path[:-1]])
    return parents


def depths(parents: Sequence[int]) -> list[int]:
    out = []
    for p in parents:
        out.append(0 if p < 0 else out[p] + 1)
    return out


def tree_mask(parents: Sequence[int], prefix_len: int) -> Tensor:
    n = len(parents)
    mask = torch.zeros(n, prefix_len + n, dtype=torch.bool)
    mask[:, :prefix_len] = True
    for i, p in enumerate(parents):
        if p >= 0:
            mask[i] = mask[p]
        mask[i, prefix_len + i] = True
    return mask


def retrieve_indices(parents: Sequence[int]) -> Tensor:
    width = max(depths(parents)) + 1
    inner = set(parents)
    rows = []
    for leaf in range(len(parents)):
        if leaf in inner:
            continue
        path = []
        node = leaf
        while node >= 0:
            path.append(node)
            node = parents[node]
        rows.append(path[::-1] + [-1] * (width - len(path)))
    return torch.tensor(rows, dtype=torch.int64)


def verify_greedy(parents: Sequence[int], tokens: Sequence[int], argmax: Sequence[int]) -> tuple[list[int], int]:
    accepted = []
    at = 0
    for i in range(1, len(parents)):
        if parents[i] == at and tokens[i] == argmax[at]:
            accepted.append(i)
            at = i
    return accepted, argmax[at]


def compact_kv(kv: Tensor, prefix_len: int, accepted: Sequence[int]) -> Tensor:
    rows = [*range(prefix_len + 1), *(prefix_len + i for i in accepted)]
    return kv.index_select(-2, torch.tensor(rows, device=kv.device))


def select_tree(parents: Sequence[int], logp: Sequence[float], budget: int) -> tuple[list[int], list[int]]:
    value = [0.0]
    for i in range(1, len(parents)):
        value.append(value[parents[i]] + logp[i])
    best = sorted(range(1, len(parents)), key=lambda i: (-value[i], i))[:budget]
    kept = [0, *sorted(best)]
    new = {old: i for i, old in enumerate(kept)}
    return kept, [-1] + [new[parents[i]] for i in kept[1:]]
