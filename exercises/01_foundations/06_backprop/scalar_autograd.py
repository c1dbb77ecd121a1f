"""Reverse-mode differentiation in its smallest form: numbers that remember what they were computed from."""

# Not allowed here, in any form: torch, numpy, sys.setrecursionlimit, threading.stack_size.

from __future__ import annotations


class Value:
    """A number in an expression. Arithmetic with it gives new Values, and `backward` finds every derivative at once.

    Each operation knows its local derivatives: for w = u * v, dw/du = v and dw/dv = u. The chain rule sums over every
    path from the end of the expression to a node; reverse mode (arXiv:1502.05767, section 3.2) gets that sum for all
    nodes in one walk from the end to the start. Let adj(node) = d root / d node. Then

        adj(root) = 1,     adj(u) = sum over all uses of u in some w of  adj(w) * dw/du

    so a node can pass its adjoint on only when all its uses have been heard, and one that is used twice (a * a) hears
    twice.

    Operators, with a Value, an int or a float on either side (2 - x as well as x - 2):
        +   -   *   /   unary -
        **  with an int or float exponent: d(x ** n)/dx = n x ** (n - 1). x ** 0 has the derivative 0, at x = 0 too.
    Every operator and method returns a new Value and leaves its operands' data alone. Where the function or its
    derivative does not exist (1 / 0, (-2) ** 0.5, 0 ** 0.5), nothing is asked of you, save what `log` says.

    Attributes
        data  float, the number
        grad  float, 0.0 at first. `backward` only ever adds to it; whoever wants to start afresh assigns 0.0.
    """

    def __init__(self, data: float) -> None:
        """A Value that was computed from nothing: data is an int or a float."""
        raise NotImplementedError("1.6/scalar_autograd: write Value.__init__")

    def __add__(self, other: Value | float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__add__")

    def __radd__(self, other: float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__radd__")

    def __sub__(self, other: Value | float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__sub__")

    def __rsub__(self, other: float) -> Value:
        """other - self"""
        raise NotImplementedError("1.6/scalar_autograd: write Value.__rsub__")

    def __mul__(self, other: Value | float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__mul__")

    def __rmul__(self, other: float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__rmul__")

    def __truediv__(self, other: Value | float) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__truediv__")

    def __rtruediv__(self, other: float) -> Value:
        """other / self"""
        raise NotImplementedError("1.6/scalar_autograd: write Value.__rtruediv__")

    def __neg__(self) -> Value:
        raise NotImplementedError("1.6/scalar_autograd: write Value.__neg__")

    def __pow__(self, exponent: float) -> Value:
        """exponent: int or float. TypeError for a Value."""
        raise NotImplementedError("1.6/scalar_autograd: write Value.__pow__")

    def exp(self) -> Value:
        """e ** self"""
        raise NotImplementedError("1.6/scalar_autograd: write Value.exp")

    def log(self) -> Value:
        """The natural logarithm. ValueError for data <= 0."""
        raise NotImplementedError("1.6/scalar_autograd: write Value.log")

    def tanh(self) -> Value:
        """The hyperbolic tangent t, whose derivative is 1 - t^2."""
        raise NotImplementedError("1.6/scalar_autograd: write Value.tanh")

    def relu(self) -> Value:
        """max(self, 0). Its derivative at exactly 0 is 0, as in torch."""
        raise NotImplementedError("1.6/scalar_autograd: write Value.relu")

    def backward(self, seed: float = 1.0) -> None:
        """Adds seed * d(self)/d(node) to .grad of every node that self was computed from, and seed to its own.

        Each node is visited once, whatever the number of paths to it: sixty steps of y = y + y have 2 ** 60 paths. The
        expression may be tens of thousands of operations deep: Python's recursion limit must not matter (and is not
        yours to raise).

        Every call adds: a second backward() adds the very same amounts again, backward(3.0) three times as much, and
        backward from another root that shares nodes with this one adds that root's. So what .grad holds from earlier
        calls must have no influence on what this call adds. (In z = (a * b) * c, the grad of the product a * b is left
        over from the first call; whoever takes it for the adjoint of the second gets three times the gradient, not
        twice.)
        """
        raise NotImplementedError("1.6/scalar_autograd: write Value.backward")
