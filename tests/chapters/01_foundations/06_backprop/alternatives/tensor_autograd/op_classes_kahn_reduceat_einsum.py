"""One Node class per operation (autograd.Function style), Kahn with use counts, sorted segments (reduceat) for the look-up, grads accumulated in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def fit(g, shape):
    """Undo broadcasting one axis at a time."""
    while g.ndim > len(shape):
        g = np.add.reduce(g, axis=0)
    for ax in range(len(shape)):
        if shape[ax] == 1 and g.shape[ax] > 1:
            g = np.add.reduce(g, axis=ax, keepdims=True)
    return g


class Node:
    def __init__(self, *parents):
        self.parents = parents


class Add(Node):
    def fw(self, a, b):
        self.s = a.shape, b.shape
        return a + b

    def bw(self, g):
        return fit(g, self.s[0]), fit(g, self.s[1])


class Mul(Node):
    def fw(self, a, b):
        self.a, self.b = a, b
        return a * b

    def bw(self, g):
        return fit(self.b * g, self.a.shape), fit(self.a * g, self.b.shape)


class Pow(Node):
    def fw(self, a, n):
        self.a, self.n = a, n
        return np.power(a, n)

    def bw(self, g):
        if self.n == 0:
            return (np.zeros(self.a.shape),)
        return (self.n * np.power(self.a, self.n - 1) * g,)


class MatMul(Node):
    def fw(self, a, b):
        self.a, self.b = a, b
        return np.matmul(a, b)

    def bw(self, g):
        da = np.einsum("...mn,...kn->...mk", g, self.b)
        db = np.einsum("...mk,...mn->...kn", self.a, g)
        return fit(da, self.a.shape), fit(db, self.b.shape)


class Rows(Node):
    def fw(self, a, index):
        self.shape = a.shape
        self.index = index.ravel().astype(np.int64)
        return np.take(a, index, axis=0)

    def bw(self, g):
        g = g.reshape((self.index.size,) + self.shape[1:])
        order = np.argsort(self.index, kind="stable")
        ids = self.index[order]
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
        out = np.zeros(self.shape)
        out[ids[starts]] = np.add.reduceat(g[order], starts, axis=0)
        return (out,)


class Sum(Node):
    def fw(self, a, axis, keepdims, scale):
        self.shape = a.shape
        self.scale = scale
        out = np.sum(a, axis=axis, keepdims=True)
        self.kept = out.shape
        if scale:
            self.scale = out.size / a.size
            out = out * self.scale
        return out if keepdims else np.squeeze(out, axis=axis if axis is not None else tuple(range(a.ndim)))

    def bw(self, g):
        out = np.empty(self.shape)
        out[...] = g.reshape(self.kept) * (self.scale or 1.0)
        return (out,)


class Max(Node):
    def fw(self, a, axis, keepdims):
        top = np.max(a, axis=axis, keepdims=True)
        self.kept = top.shape
        self.mask = a == top
        self.ties = np.sum(self.mask, axis=axis, keepdims=True)
        return top if keepdims else np.max(a, axis=axis)

    def bw(self, g):
        return (np.where(self.mask, g.reshape(self.kept) / self.ties, 0.0),)


class Reshape(Node):
    def fw(self, a, shape):
        self.shape = a.shape
        return np.reshape(a, shape).copy()

    def bw(self, g):
        return (g.reshape(self.shape),)


class Transpose(Node):
    def fw(self, a, axes):
        self.axes = axes
        return np.transpose(a, axes)

    def bw(self, g):
        inv = [0] * len(self.axes)
        for i, ax in enumerate(self.axes):
            inv[ax] = i
        return (np.transpose(g, inv),)


class Exp(Node):
    def fw(self, a):
        self.y = np.exp(a)
        return self.y

    def bw(self, g):
        return (g * self.y,)


class Log(Node):
    def fw(self, a):
        self.a = a
        return np.log(a)

    def bw(self, g):
        return (g / self.a,)


class Relu(Node):
    def fw(self, a):
        self.on = a > 0
        return np.where(self.on, a, 0.0)

    def bw(self, g):
        return (np.where(self.on, g, 0.0),)


def run(kind, parents, *args):
    parents = [p if isinstance(p, Tensor) else Tensor(p) for p in parents]
    node = kind(*parents)
    out = Tensor(node.fw(*[p.data for p in parents], *args))
    if any(p.requires_grad for p in parents):
        out.requires_grad = True
        out.node = node
    return out


class Tensor:
    __array_priority__ = 1000

    def __init__(self, data, requires_grad: bool = False) -> None:
        self.data = np.asarray(data, dtype=np.float64)
        self.requires_grad = requires_grad
        self.grad = None
        self.node = None

    def __add__(self, other):
        return run(Add, (self, other))

    def __radd__(self, other):
        return run(Add, (other, self))

    def __sub__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return run(Add, (self, -other))

    def __rsub__(self, other):
        return run(Add, (other, -self))

    def __mul__(self, other):
        return run(Mul, (self, other))

    def __rmul__(self, other):
        return run(Mul, (other, self))

    def __truediv__(self, other):
        other = other if isinstance(other, Tensor) else Tensor(other)
        return self * other**-1

    def __rtruediv__(self, other):
        return other * self**-1

    def __neg__(self):
        return run(Mul, (self, -1.0))

    def __pow__(self, exponent):
        return run(Pow, (self,), exponent)

    def __matmul__(self, other):
        return run(MatMul, (self, other))

    def __rmatmul__(self, other):
        return run(MatMul, (other, self))

    def __getitem__(self, index):
        return run(Rows, (self,), index)

    def sum(self, axis=None, keepdims=False):
        return run(Sum, (self,), axis, keepdims, None)

    def mean(self, axis=None, keepdims=False):
        return run(Sum, (self,), axis, keepdims, True)

    def max(self, axis=None, keepdims=False):
        return run(Max, (self,), axis, keepdims)

    def reshape(self, *shape):
        return run(Reshape, (self,), shape)

    def transpose(self, *axes):
        return run(Transpose, (self,), axes or tuple(reversed(range(self.data.ndim))))

    def exp(self):
        return run(Exp, (self,))

    def log(self):
        return run(Log, (self,))

    def relu(self):
        return run(Relu, (self,))

    def backward(self, grad=None) -> None:
        if grad is None:
            if self.data.size != 1:
                raise ValueError("grad may be left out for a single element only")
            grad = np.ones_like(self.data)
        if not self.requires_grad:
            return
        uses = {self: 0}
        todo = [self]
        while todo:
            t = todo.pop()
            for p in t.node.parents if t.node else ():
                if p.requires_grad:
                    if p not in uses:
                        uses[p] = 0
                        todo.append(p)
                    uses[p] += 1
        adj = {self: np.array(grad, dtype=np.float64)}
        ready = [self]
        while ready:
            t = ready.pop()
            g = adj.pop(t)
            if t.node is None:
                if t.grad is None:
                    t.grad = np.zeros(t.data.shape)
                t.grad += g
                continue
            for p, d in zip(t.node.parents, t.node.bw(g)):
                if not p.requires_grad:
                    continue
                if p in adj:
                    adj[p] += d
                else:
                    adj[p] = np.array(d)
                uses[p] -= 1
                if uses[p] == 0:
                    ready.append(p)
