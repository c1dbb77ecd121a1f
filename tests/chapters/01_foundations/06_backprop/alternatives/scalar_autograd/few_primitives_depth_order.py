"""Few primitives (x - y is x + y * -1, x / y is x * y ** -1), nodes gathered breadth first and sorted by depth."""

from __future__ import annotations

import math


class Value:
    """Only add, mul, pow, exp, log, tanh, relu are primitive; depth numbers sort the nodes for the way back."""

    def __init__(self, data, parents=(), slopes=()):
        self.data = data * 1.0
        self.grad = 0.0
        self._parents = parents
        self._slopes = slopes
        self._depth = 1 + max((p._depth for p in parents), default=-1)

    def _v(x):
        return x if isinstance(x, Value) else Value(x)

    def __add__(self, other):
        other = Value._v(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __radd__(self, other):
        return Value._v(other) + self

    def __mul__(self, other):
        other = Value._v(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __rmul__(self, other):
        return Value._v(other) * self

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + other * -1

    def __rsub__(self, other):
        return other + self * -1

    def __pow__(self, exponent):
        if isinstance(exponent, Value):
            raise TypeError("constant exponents only")
        x, n = self.data, exponent
        return Value(math.pow(x, n), (self,), (n * math.pow(x, n - 1) if n else 0.0,))

    def __truediv__(self, other):
        return self * Value._v(other) ** -1

    def __rtruediv__(self, other):
        return other * self**-1

    def exp(self):
        e = math.e**self.data
        return Value(e, (self,), (e,))

    def log(self):
        return Value(math.log(self.data), (self,), (1 / self.data,))

    def tanh(self):
        return Value(math.tanh(self.data), (self,), (math.cosh(self.data) ** -2,))

    def relu(self):
        return Value((self.data + abs(self.data)) / 2, (self,), (float(self.data > 0),))

    def backward(self, seed=1.0):
        nodes, frontier = {self}, {self}
        while frontier:
            frontier = {p for n in frontier for p in n._parents} - nodes
            nodes |= frontier
        adj = dict.fromkeys(nodes, 0.0)
        adj[self] = seed
        for node in sorted(nodes, key=lambda n: -n._depth):
            for p, s in zip(node._parents, node._slopes):
                adj[p] += s * adj[node]
        for node, a in adj.items():
            node.grad += a
