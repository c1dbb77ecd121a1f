"""Everything by walking from each node up to the root; the walk of acceptance by recursion."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def _up(parents, node):
    chain = []
    while node != -1:
        chain.insert(0, node)
        node = parents[node]
    return chain


def tree_from_paths(paths: Sequence[tuple[int, ...]]) -> list[int]:
    nodes = [()]
    nodes += sorted(sorted(set(paths)), key=len)
    if nodes.count(()) > 1:
        raise ValueError("the root is no path")
    return [-1] + [nodes.index(path[:-1]) for path in nodes[1:]]  # list.index raises ValueError


def depths(parents: Sequence[int]) -> list[int]:
    return [len(_up(parents, node)) - 1 for node in range(len(parents))]


def tree_mask(parents: Sequence[int], prefix_len: int) -> Tensor:
    n = len(parents)
    rows = []
    for node in range(n):
        seen = set(_up(parents, node))
        rows.append([True] * prefix_len + [other in seen for other in range(n)])
    return torch.tensor(rows)


def retrieve_indices(parents: Sequence[int]) -> Tensor:
    paths = [torch.tensor(_up(parents, node)) for node in range(len(parents)) if node not in parents]
    if max(map(len, paths)) < max(depths(parents)) + 1:
        raise AssertionError("a deepest node is a leaf")
    return torch.nn.utils.rnn.pad_sequence(paths, batch_first=True, padding_value=-1)


def verify_greedy(parents: Sequence[int], tokens: Sequence[int], argmax: Sequence[int]) -> tuple[list[int], int]:
    def follow(node):
        wanted = argmax[node]
        for child, parent in enumerate(parents):
            if parent == node and tokens[child] == wanted:
                rest, bonus = follow(child)
                return [child, *rest], bonus
        return [], wanted

    return follow(0)


def compact_kv(kv: Tensor, prefix_len: int, accepted: Sequence[int]) -> Tensor:
    scattered = [kv[..., prefix_len + node : prefix_len + node + 1, :] for node in accepted]
    return torch.cat([kv[..., : prefix_len + 1, :], *scattered], dim=-2)


def select_tree(parents: Sequence[int], logp: Sequence[float], budget: int) -> tuple[list[int], list[int]]:
    worth = torch.zeros(len(parents), dtype=torch.float64)
    for node in range(1, len(parents)):
        worth[node] = sum(logp[i] for i in _up(parents, node)[1:])
    order = torch.sort(worth[1:], descending=True, stable=True).indices[:budget] + 1
    kept = [0, *sorted(order.tolist())]
    return kept, [kept.index(parents[node]) if node else -1 for node in kept]
