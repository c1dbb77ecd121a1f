"""Every operation with a rule of its own; nodes numbered as they are made; a priority instead of __array_ufunc__."""

import itertools

import numpy as np

_count = itertools.count()


def _fit(g, shape):
    while g.ndim > len(shape):
        g = g.sum(0)
    for axis, (have, want) in enumerate(zip(g.shape, shape, strict=True)):
        if have != want:
            g = g.sum(axis, keepdims=True)
    return g


class Tensor:
    __array_priority__ = 1000

    def __init__(self, data, requires_grad=False):
        self.data = np.array(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad = None
        self._id = next(_count)
        self._sources = None

    @staticmethod
    def _make(data, *sources):
        out = Tensor(data)
        out._sources = [(t, rule) for t, rule in sources if isinstance(t, Tensor) and t.requires_grad]
        out.requires_grad = bool(out._sources)
        return out

    def __add__(self, other):
        b = _raw(other)
        return self._make(self.data + b, (self, lambda g: g), (other, lambda g: g))

    def __sub__(self, other):
        b = _raw(other)
        return self._make(self.data - b, (self, lambda g: g), (other, lambda g: -g))

    def __rsub__(self, other):
        return self._make(_raw(other) - self.data, (self, lambda g: -g))

    def __mul__(self, other):
        a, b = self.data, _raw(other)
        return self._make(a * b, (self, lambda g: g * b), (other, lambda g: g * a))

    def __truediv__(self, other):
        a, b = self.data, _raw(other)
        return self._make(a / b, (self, lambda g: g / b), (other, lambda g: -g * a / b / b))

    def __rtruediv__(self, other):
        a, b = _raw(other), self.data
        return self._make(a / b, (self, lambda g: -g * a / (b * b)))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self._make(-self.data, (self, lambda g: -g))

    def __pow__(self, n):
        a = self.data
        return self._make(a**n, (self, lambda g: g * n * a ** (n - 1) if n else 0 * g))

    def __matmul__(self, other):
        a, b = self.data, _raw(other)
        return self._make(
            np.matmul(a, b),
            (self, lambda g: np.einsum("...mn,...kn->...mk", g, b)),
            (other, lambda g: np.einsum("...mk,...mn->...kn", a, g)),
        )

    def __getitem__(self, index):
        a = self.data

        def scatter(g):
            flat, rows = index.reshape(-1), g.reshape(index.size, -1)
            out = np.zeros((len(a), rows.shape[1]))
            for i in range(len(flat)):
                out[flat[i]] += rows[i]
            return out.reshape(a.shape)

        return self._make(a[index], (self, scatter))

    def _spread(self, g, axis, keepdims):
        if axis is not None and not keepdims:
            for i in sorted(i % self.data.ndim for i in (axis if isinstance(axis, tuple) else (axis,))):
                g = np.expand_dims(g, i)
        return g + np.zeros(self.data.shape)

    def sum(self, axis=None, keepdims=False):
        return self._make(self.data.sum(axis, keepdims=keepdims), (self, lambda g: self._spread(g, axis, keepdims)))

    def mean(self, axis=None, keepdims=False):
        out = self.data.mean(axis, keepdims=keepdims)
        n = self.data.size / np.size(out)
        return self._make(out, (self, lambda g: self._spread(g, axis, keepdims) / n))

    def max(self, axis=None, keepdims=False):
        hit = (self.data == self.data.max(axis, keepdims=True)) * 1.0
        hit /= hit.sum(axis, keepdims=True)
        out = self.data.max(axis, keepdims=keepdims)
        return self._make(out, (self, lambda g: self._spread(g, axis, keepdims) * hit))

    def reshape(self, *shape):
        return self._make(self.data.reshape(*shape), (self, lambda g: g.reshape(self.data.shape)))

    def transpose(self, *axes):
        axes = list(axes) or list(range(self.data.ndim))[::-1]
        back = [axes.index(i) for i in range(self.data.ndim)]
        return self._make(np.transpose(self.data, axes), (self, lambda g: np.transpose(g, back)))

    def exp(self):
        y = np.exp(self.data)
        return self._make(y, (self, lambda g: g * y))

    def log(self):
        return self._make(np.log(self.data), (self, lambda g: g / self.data))

    def relu(self):
        on = self.data > 0
        return self._make(self.data * on, (self, lambda g: g * on))

    def backward(self, grad=None):
        if grad is None:
            if self.data.size > 1:
                raise ValueError("which gradient?")
            grad = np.ones(self.data.shape)
        waiting, sums = {self._id: self}, {self._id: np.array(grad, dtype=float)}
        while waiting:
            node = waiting.pop(max(waiting))
            g = sums.pop(node._id)
            if node._sources is None:
                if node.requires_grad:
                    node.grad = g.copy() if node.grad is None else node.grad + g
                continue
            for source, rule in node._sources:
                part = _fit(np.asarray(rule(g)), source.data.shape)
                waiting[source._id] = source
                sums[source._id] = sums[source._id] + part if source._id in sums else part


def _raw(x):
    return x.data if isinstance(x, Tensor) else np.asarray(x)
