"""Vector-Jacobian closures returning a list, recursion replaced by a heap of creation numbers; mean, sub, div composed; bincount per column for the look-up; matmul gradients by broadcasting sums."""

from __future__ import annotations

import heapq
import math
from itertools import count

import numpy as np

_serial = count()


def _reduce_to(g, shape):
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    for i, n in enumerate(shape):
        if n != g.shape[i]:
            g = g.sum(axis=i, keepdims=True)
    return g


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data = np.array(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad = None
        self._srcs = ()
        self._vjp = None
        self._serial = next(_serial)

    def __array_ufunc__(self, ufunc, method, *inputs, **kw):
        ops = {
            np.add: "__radd__",
            np.subtract: "__rsub__",
            np.multiply: "__rmul__",
            np.divide: "__rtruediv__",
            np.matmul: "__rmatmul__",
        }
        if ufunc in ops and method == "__call__" and not isinstance(inputs[0], Tensor):
            return getattr(self, ops[ufunc])(inputs[0])
        return NotImplemented

    def _new(data, srcs, vjp):
        out = Tensor(data)
        if any(s.requires_grad for s in srcs):
            out.requires_grad, out._srcs, out._vjp = True, srcs, vjp
        return out

    def _t(x):
        return x if isinstance(x, Tensor) else Tensor(x)

    def __add__(self, o):
        o = Tensor._t(o)
        return Tensor._new(
            self.data + o.data, (self, o), lambda g: [_reduce_to(g, self.data.shape), _reduce_to(g, o.data.shape)]
        )

    def __radd__(self, o):
        return self + o

    def __neg__(self):
        return self * -1

    def __sub__(self, o):
        return self + Tensor._t(o) * -1

    def __rsub__(self, o):
        return Tensor._t(o) + self * -1

    def __mul__(self, o):
        o = Tensor._t(o)
        return Tensor._new(
            self.data * o.data,
            (self, o),
            lambda g: [_reduce_to(g * o.data, self.data.shape), _reduce_to(g * self.data, o.data.shape)],
        )

    def __rmul__(self, o):
        return self * o

    def __pow__(self, n):
        d = 0 * self.data if n == 0 else n * self.data ** (n - 1.0)
        return Tensor._new(self.data ** float(n), (self,), lambda g: [g * d])

    def __truediv__(self, o):
        return self * Tensor._t(o) ** -1

    def __rtruediv__(self, o):
        return Tensor._t(o) * self**-1

    def __matmul__(self, o):
        o = Tensor._t(o)
        A, B = self.data, o.data
        return Tensor._new(
            A @ B,
            (self, o),
            lambda g: [
                _reduce_to(g @ np.moveaxis(B, -1, -2), A.shape),
                _reduce_to(np.moveaxis(A, -1, -2) @ g, B.shape),
            ],
        )

    def __rmatmul__(self, o):
        return Tensor._t(o) @ self

    def __getitem__(self, index):
        rows = self.data.shape[0]

        def vjp(g):
            flat = g.reshape(np.size(index), -1)
            cols = [np.bincount(index.ravel(), weights=flat[:, j], minlength=rows) for j in range(flat.shape[1])]
            return [np.stack(cols, axis=1).reshape(self.data.shape)]

        return Tensor._new(self.data[index], (self,), vjp)

    def _axes(self, axis):
        nd = self.data.ndim
        if axis is None:
            return tuple(range(nd))
        if isinstance(axis, int):
            axis = (axis,)
        return tuple(a % nd for a in axis)

    def _kept(self, axes):
        return tuple(1 if i in axes else n for i, n in enumerate(self.data.shape))

    def sum(self, axis=None, keepdims=False):
        axes = self._axes(axis)
        return Tensor._new(
            self.data.sum(axes, keepdims=keepdims),
            (self,),
            lambda g: [g.reshape(self._kept(axes)) * np.ones(self.data.shape)],
        )

    def mean(self, axis=None, keepdims=False):
        n = math.prod(self.data.shape[a] for a in self._axes(axis))
        return self.sum(axis, keepdims) / n

    def max(self, axis=None, keepdims=False):
        axes = self._axes(axis)
        top = self.data.max(axes, keepdims=True)
        where = self.data == top

        def vjp(g):
            return [where * (g.reshape(top.shape) / np.count_nonzero(where, axis=axes, keepdims=True))]

        return Tensor._new(top if keepdims else top.squeeze(axes), (self,), vjp)

    def reshape(self, *shape):
        return Tensor._new(self.data.reshape(*shape), (self,), lambda g: [g.reshape(self.data.shape)])

    def transpose(self, *axes):
        if axes:
            return Tensor._new(self.data.transpose(axes), (self,), lambda g: [np.moveaxis(g, range(g.ndim), axes)])
        return Tensor._new(self.data.T, (self,), lambda g: [g.T])

    def exp(self):
        out = Tensor._new(np.exp(self.data), (self,), lambda g: [g * np.exp(self.data)])
        return out

    def log(self):
        return Tensor._new(np.log(self.data), (self,), lambda g: [g / self.data])

    def relu(self):
        return Tensor._new(self.data.clip(min=0), (self,), lambda g: [g * np.heaviside(self.data, 0)])

    def backward(self, grad=None):
        if grad is None:
            if self.data.size != 1:
                raise ValueError("not a scalar")
            grad = np.ones(self.data.shape)
        waiting = {self._serial: (self, np.array(grad, dtype=float))}
        heap = [-self._serial]
        while heap:
            t, g = waiting.pop(-heapq.heappop(heap))
            if t._vjp is None:
                if t.requires_grad:
                    t.grad = g.copy() if t.grad is None else t.grad + g
                continue
            for s, d in zip(t._srcs, t._vjp(g)):
                if s._serial in waiting:
                    waiting[s._serial] = (s, waiting[s._serial][1] + d)
                else:
                    waiting[s._serial] = (s, d)
                    heapq.heappush(heap, -s._serial)
