"""Token trees: one forward pass of the target model judges many continuations at once (Medusa, EAGLE).

A tree is a list of parents. Node 0 is the root, the last sure token, with parents[0] = -1; every other node i is a
guess for the token after its parent, and parents[i] < i. The n nodes are laid out flat, in this order, behind a prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def tree_from_paths(paths: Sequence[tuple[int, ...]]) -> list[int]:
    """The parents of the tree that Medusa's choice paths describe (arXiv:2401.10774).

    A path such as (1, 0) is one node: "the second best guess at depth 1, then the best guess at depth 2". Its parent is
    the path without its last entry; paths of length 1 are children of the root, which has no path. Nodes are numbered
    from 1 in the order of (length, path), whatever the order of `paths`; a path that occurs twice counts once.
    Returns parents, with parents[0] = -1; [-1] for no paths. ValueError if a path is empty or its parent is missing.
    """
    raise NotImplementedError("7.6/token_tree: write tree_from_paths")


def depths(parents: Sequence[int]) -> list[int]:
    """Distance of every node from the root, which has depth 0. Node i takes the position prefix length + depths[i]."""
    raise NotImplementedError("7.6/token_tree: write depths")


def tree_mask(parents: Sequence[int], prefix_len: int) -> Tensor:
    """Who may attend to whom: bool (n, prefix_len + n), True = may attend.

    Row i is node i; the first prefix_len columns are the prefix, the others the nodes. A node attends to the whole
    prefix, to its ancestors (the root included) and to itself; to nothing else.
    """
    raise NotImplementedError("7.6/token_tree: write tree_mask")


def retrieve_indices(parents: Sequence[int]) -> Tensor:
    """All root-to-leaf paths: int64 (leaves, largest depth + 1), node indices from the root on.

    Short rows are padded on the right with -1. Leaves, the nodes that are nobody's parent, come in the order of their
    indices.
    """
    raise NotImplementedError("7.6/token_tree: write retrieve_indices")


def verify_greedy(parents: Sequence[int], tokens: Sequence[int], argmax: Sequence[int]) -> tuple[list[int], int]:
    """What the target's greedy choice accepts of a tree: (accepted nodes in order, without the root; bonus token).

    tokens[i] is the token of node i, argmax[i] the target's best token *after* node i. From the root, go to a child
    whose token is the argmax at the node where you stand, as long as there is one; among several such children take the
    lowest index. The bonus token is the argmax at the node where the walk ends.
    """
    raise NotImplementedError("7.6/token_tree: write verify_greedy")


def compact_kv(kv: Tensor, prefix_len: int, accepted: Sequence[int]) -> Tensor:
    """The cache after the step: the prefix's rows, the root's, and those of the accepted nodes in order.

    kv: (..., T, head_dim) with T >= prefix_len + n: the prefix's rows, then that of node i at row prefix_len + i; what
    follows is unused. Returns a new tensor (..., prefix_len + 1 + len(accepted), head_dim) of the same dtype, which
    shares no memory with kv; kv stays as it is.
    """
    raise NotImplementedError("7.6/token_tree: write compact_kv")


def select_tree(parents: Sequence[int], logp: Sequence[float], budget: int) -> tuple[list[int], list[int]]:
    """Cuts a candidate tree to its most likely nodes, as EAGLE-2 does (arXiv:2406.16858, section 4.2).

    logp[i] <= 0 is the draft's log-probability of node i given its parent; logp[0] is ignored. The value of a node is
    the sum of logp over its path from the root (root left out): the log of the chance that the target gets there. Keeps
    the root and the `budget` other nodes of largest value, ties to the lower index; all if there are no more than that.
    Returns (kept old indices, ascending; parents of the kept nodes in the new numbering, with -1 first). No node is
    kept without its parent: why can that not happen?
    """
    raise NotImplementedError("7.6/token_tree: write select_tree")
