"""Works in place on copies, with infinities cleaned up afterwards."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class State:
    m: Tensor
    l: Tensor
    acc: Tensor


def start(rows, d, dtype=torch.float32):
    m = torch.empty(rows, dtype=dtype).fill_(float("-inf"))
    return State(m=m, l=torch.zeros_like(m), acc=m.new_zeros(rows, d))


def copy(state):
    return State(state.m.clone(), state.l.clone(), state.acc.clone())


def raise_maximum(state, m):
    """Brings a state to the maximum m, in place."""
    factor = torch.exp(state.m - m).nan_to_num_(nan=1.0)
    state.l.mul_(factor)
    state.acc.mul_(factor.view(-1, 1))
    state.m.copy_(m)


def absorb(state, scores, values):
    new = copy(state)
    if scores.size(1):
        dtype = state.m.dtype
        raise_maximum(new, scores.to(dtype).max(1)[0].maximum(state.m))
        p = scores.to(dtype) - new.m.view(-1, 1)
        p.exp_().nan_to_num_(nan=0.0)
        new.l.add_(p.sum(1))
        new.acc.addmm_(p, values.to(dtype))
    return new


def merge(a, b):
    a, b = copy(a), copy(b)
    m = a.m.maximum(b.m)
    raise_maximum(a, m)
    raise_maximum(b, m)
    a.l += b.l
    a.acc += b.acc
    return a


def finish(state):
    return (state.acc / state.l.view(-1, 1)).nan_to_num(nan=0.0), state.m + state.l.log()


def softmax_blocks(load, n, block):
    starts = range(0, n, block)
    states = None
    for i in starts:
        x = load(i, min(n, i + block))
        states = absorb(states or start(x.size(0), 1, x.dtype), x, x.new_zeros(x.size(1), 1))
    for i in starts:
        x = load(i, min(n, i + block)) - states.m.view(-1, 1)
        yield i, (x.exp() / states.l.view(-1, 1)).nan_to_num(nan=0.0)
