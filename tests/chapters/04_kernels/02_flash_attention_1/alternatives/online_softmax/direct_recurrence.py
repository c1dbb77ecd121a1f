"""Direct recurrence: where-based finite reference, separate loop for softmax_blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


def _finite(m: Tensor) -> Tensor:
    return torch.where(torch.isneginf(m), torch.zeros_like(m), m)


@dataclass
class State:
    """All that must be remembered of the keys seen so far, for each row of scores on its own."""

    m: Tensor
    """(rows,) largest score so far; -inf before any"""
    l: Tensor
    """(rows,) sum over the keys seen of exp(score - m)"""
    acc: Tensor
    """(rows, d) sum over the keys seen of exp(score - m) * value"""


def start(rows: int, d: int, dtype: torch.dtype = torch.float32) -> State:
    """The state that has seen no key: m = -inf, l = 0, acc = 0, all of the given dtype (float32 or float64).

    It is the neutral element of `merge`: merging it with a state, on either side, changes nothing.
    """
    neg = torch.full((rows,), -torch.inf, dtype=dtype)
    return State(neg, torch.zeros(rows, dtype=dtype), torch.zeros(rows, d, dtype=dtype))


def absorb(state: State, scores: Tensor, values: Tensor) -> State:
    """The state after one more block of b keys, b >= 0.

    scores: (rows, b), finite or -inf (a masked key); values: (b, d), finite. Their dtype is the state's or a narrower
    one, and they are widened to the state's dtype before anything is computed with them.

    With m' the larger of m and the block's largest score,

        l'   = l   * exp(m - m') + sum_j exp(score_j - m')
        acc' = acc * exp(m - m') + sum_j exp(score_j - m') * value_j

    Returns a new State of the same dtype and leaves the old one as it was. b = 0 changes nothing. A key of score -inf
    counts for nothing, also if it comes first, and a row that has seen only such keys is still the empty state. There
    is no NaN in any of these cases.

    Cost: no tensor made on the way has more than max(rows * b, rows * d, b * d) elements.
    """
    dtype = state.m.dtype
    scores, values = scores.to(dtype), values.to(dtype)
    if scores.shape[1] == 0:
        return State(state.m.clone(), state.l.clone(), state.acc.clone())
    m = torch.maximum(state.m, scores.amax(dim=1))
    ref = _finite(m)
    alpha = torch.exp(state.m - ref)
    p = torch.exp(scores - ref.unsqueeze(1))
    return State(m, state.l * alpha + p.sum(dim=1), state.acc * alpha.unsqueeze(1) + p @ values)


def merge(a: State, b: State) -> State:
    """The state of the union of two disjoint sets of keys, as a new State; a and b stay as they were.

    Both sums are brought to the common maximum m = max(a.m, b.m) before they are added. The operation is associative
    and commutative (up to rounding), so the blocks of a row may be absorbed in any order and by any number of workers,
    and the partial states merged in any tree.
    """
    m = torch.maximum(a.m, b.m)
    ref = _finite(m)
    wa, wb = torch.exp(a.m - ref), torch.exp(b.m - ref)
    return State(m, wa * a.l + wb * b.l, wa[:, None] * a.acc + wb[:, None] * b.acc)


def finish(state: State) -> tuple[Tensor, Tensor]:
    """(out, logsumexp): out = acc / l of shape (rows, d), and m + log l of shape (rows,), in the state's dtype.

    out is what softmax(scores) @ values gives, logsumexp is log sum_j exp(score_j). A row that saw no key, or only keys
    of score -inf, has out 0 and logsumexp -inf, never NaN.
    """
    empty = state.l == 0
    out = state.acc / torch.where(empty, 1.0, state.l)[:, None]
    return out, state.m + torch.log(state.l)


def softmax_blocks(load: Callable[[int, int], Tensor], n: int, block: int) -> Iterator[tuple[int, Tensor]]:
    """Softmax along the rows of a (rows, n) matrix that is too wide to hold, in two passes over it instead of three.

    load(i, j) returns the columns i, ..., j - 1 as a (rows, j - i) tensor of float32 or float64, finite or -inf;
    n >= 0, block >= 1. Blocks start at columns 0, block, 2 * block, ...; the last one ends at n. The first pass finds
    m and l of all rows together, as `absorb` does. The second loads each block again and yields

        (i, exp(load(i, j) - m) / l)        from left to right, in the dtype of the blocks.

    A row that is -inf everywhere gives zeros. n = 0 yields nothing.

    Cost: load is called exactly 2 * ceil(n / block) times, never for more than `block` columns, and a block of the
    second pass is loaded only when it is asked for: when the first block has been yielded, load was called
    ceil(n / block) + 1 times. No tensor made has more than rows * block elements.
    Source: arXiv:1805.02867, algorithm 3.
    """
    starts = range(0, n, block)
    m = l = None
    for i in starts:
        x = load(i, min(i + block, n))
        if m is None:
            m = torch.full((x.shape[0],), -torch.inf, dtype=x.dtype, device=x.device)
            l = torch.zeros_like(m)
        new_m = torch.maximum(m, x.amax(dim=1))
        ref = _finite(new_m)
        l = l * torch.exp(m - ref) + torch.exp(x - ref[:, None]).sum(dim=1)
        m = new_m
    for i in starts:
        x = load(i, min(i + block, n))
        yield i, torch.exp(x - _finite(m)[:, None]) / torch.where(l == 0, 1.0, l)[:, None]
