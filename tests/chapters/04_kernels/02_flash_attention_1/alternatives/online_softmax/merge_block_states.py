"""absorb is a merge with the state of the block alone; weights instead of subtracted substitutes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass
class State:
    m: Tensor
    l: Tensor
    acc: Tensor


def start(rows, d, dtype=torch.float32):
    return State(
        torch.zeros(rows, dtype=dtype).log(),
        torch.zeros(rows, dtype=dtype),
        torch.zeros((rows, d), dtype=dtype),
    )


def weight(scores, m):
    """exp(scores - m), 0 where scores is -inf."""
    return (scores - m).exp().masked_fill(scores == -float("inf"), 0)


def merge(a, b):
    m = torch.where(a.m > b.m, a.m, b.m)
    wa, wb = weight(a.m, m), weight(b.m, m)
    return State(m, wa * a.l + wb * b.l, torch.einsum("r,rd->rd", wa, a.acc) + torch.einsum("r,rd->rd", wb, b.acc))


def absorb(state, scores, values):
    rows, b = scores.shape
    if b == 0:
        return merge(state, start(rows, values.shape[1], state.m.dtype))
    scores = scores.to(state.m.dtype)
    values = values.to(state.m.dtype)
    m = scores.max(dim=1).values
    p = weight(scores, m.unsqueeze(1))
    return merge(state, State(m, p.sum(1), torch.einsum("rb,bd->rd", p, values)))


def finish(state):
    seen = state.l > 0
    out = torch.zeros_like(state.acc)
    out[seen] = state.acc[seen] / state.l[seen].unsqueeze(1)
    lse = torch.full_like(state.m, -float("inf"))
    lse[seen] = state.m[seen] + state.l[seen].log()
    return out, lse


def softmax_blocks(load: Callable[[int, int], Tensor], n: int, block: int) -> Iterator[tuple[int, Tensor]]:
    edges = [*range(0, n, block), n]
    m = l = None
    for i, j in pairwise(edges):
        x = load(i, j)
        top = x.amax(1)
        if m is None:
            m, l = top, weight(x, top[:, None]).sum(1)
        else:
            new = torch.maximum(m, top)
            l = l * weight(m, new) + weight(x, new[:, None]).sum(1)
            m = new
    for i, j in pairwise(edges):
        yield i, weight(load(i, j), m[:, None]) / l.clamp(min=1e-30)[:, None]
