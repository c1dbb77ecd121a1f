"""Closures for the local rules, and a queue of nodes all of whose uses have reported."""

import math


class Value:
    __slots__ = ("_back", "_kids", "data", "grad")

    def __init__(self, data, kids=(), back=None):
        self.data = data
        self.grad = 0.0
        self._kids = kids
        self._back = back

    def __add__(self, other):
        other = wrap(other)
        return Value(self.data + other.data, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        other = wrap(other)
        return Value(self.data - other.data, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        other = wrap(other)
        x, y = self.data, other.data
        return Value(x * y, (self, other), lambda g: (g * y, g * x))

    def __truediv__(self, other):
        other = wrap(other)
        x, y = self.data, other.data
        return Value(x / y, (self, other), lambda g: (g / y, -g * x / y**2))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other):
        return wrap(other).__sub__(self)

    def __rtruediv__(self, other):
        return wrap(other).__truediv__(self)

    def __neg__(self):
        return Value(-self.data, (self,), lambda g: (-g,))

    def __pow__(self, n):
        if isinstance(n, Value):
            return NotImplemented
        x = self.data
        if n == 0:
            return Value(1.0, (self,), lambda g: (0.0,))
        return Value(x**n, (self,), lambda g: (g * n * x ** (n - 1),))

    def exp(self):
        y = math.exp(self.data)
        return Value(y, (self,), lambda g: (g * y,))

    def log(self):
        x = self.data
        return Value(math.log(x), (self,), lambda g: (g / x,))

    def tanh(self):
        x = self.data
        return Value(math.tanh(x), (self,), lambda g: (g / math.cosh(x) ** 2,))

    def relu(self):
        return Value(self.data, (self,), lambda g: (g,)) if self.data > 0 else Value(0.0, (self,), lambda g: (0.0,))

    def backward(self, seed=1.0):
        uses = {self: 0}
        found = [self]
        for node in found:
            for kid in node._kids:
                if kid not in uses:
                    uses[kid] = 0
                    found.append(kid)
                uses[kid] += 1
        sums = dict.fromkeys(found, 0.0)
        sums[self] = seed
        ready = [self]
        while ready:
            node = ready.pop()
            node.grad += sums[node]
            if node._back is None:
                continue
            for kid, part in zip(node._kids, node._back(sums[node]), strict=True):
                sums[kid] += part
                uses[kid] -= 1
                if uses[kid] == 0:
                    ready.append(kid)


def wrap(x):
    return x if isinstance(x, Value) else Value(float(x))
