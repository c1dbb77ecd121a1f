"""Nodes are numbered as they are made; the walk back takes the youngest first from a heap."""

import heapq
import itertools
from math import exp, log, tanh

_numbers = itertools.count()


class Value:
    def __init__(self, data):
        self.data = float(data)
        self.grad = 0.0
        self.number = next(_numbers)
        self.inputs = []

    @classmethod
    def from_inputs(cls, data, *inputs):
        value = cls(data)
        value.inputs = [pair for pair in inputs if isinstance(pair[0], cls)]
        return value

    def __add__(self, other):
        return Value.from_inputs(self.data + number(other), (self, 1), (other, 1))

    def __radd__(self, other):
        return Value.from_inputs(other + self.data, (self, 1))

    def __neg__(self):
        return Value.from_inputs(-self.data, (self, -1))

    def __sub__(self, other):
        return Value.from_inputs(self.data - number(other), (self, 1), (other, -1))

    def __rsub__(self, other):
        return Value.from_inputs(other - self.data, (self, -1))

    def __mul__(self, other):
        return Value.from_inputs(self.data * number(other), (self, number(other)), (other, self.data))

    def __rmul__(self, other):
        return Value.from_inputs(other * self.data, (self, other))

    def __truediv__(self, other):
        y = number(other)
        return Value.from_inputs(self.data / y, (self, 1 / y), (other, -self.data / (y * y)))

    def __rtruediv__(self, other):
        return Value.from_inputs(other / self.data, (self, -other / self.data**2))

    def __pow__(self, n):
        if type(n) not in (int, float):
            raise TypeError("a power must be a number")
        return Value.from_inputs(self.data**n, (self, n and n * self.data ** (n - 1)))

    def exp(self):
        return Value.from_inputs(exp(self.data), (self, exp(self.data)))

    def log(self):
        return Value.from_inputs(log(self.data), (self, 1 / self.data))

    def tanh(self):
        return Value.from_inputs(tanh(self.data), (self, 1 - tanh(self.data) ** 2))

    def relu(self):
        return Value.from_inputs(self.data * (self.data > 0), (self, float(self.data > 0)))

    def backward(self, seed=1.0):
        heap = [(-self.number, self)]
        adjoint = {self.number: seed}
        while heap:
            _, node = heapq.heappop(heap)
            g = adjoint.pop(node.number)
            node.grad += g
            for value, slope in node.inputs:
                if value.number not in adjoint:
                    adjoint[value.number] = 0.0
                    heapq.heappush(heap, (-value.number, value))
                adjoint[value.number] += g * slope


def number(x):
    return x.data if isinstance(x, Value) else x
