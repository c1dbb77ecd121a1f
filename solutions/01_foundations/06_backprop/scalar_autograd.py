"""Reverse-mode differentiation in its smallest form: numbers that remember what they were computed from."""

from __future__ import annotations

### BEGIN SOLUTION
import math

### END SOLUTION


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
        ### BEGIN SOLUTION
        self.data = float(data)
        self.grad = 0.0
        self._parents: tuple[tuple[Value, float], ...] = ()
        ### END SOLUTION

    def __add__(self, other: Value | float) -> Value:
        ### BEGIN SOLUTION
        other = _as_value(other)
        return _computed(self.data + other.data, (self, 1.0), (other, 1.0))
        ### END SOLUTION

    def __radd__(self, other: float) -> Value:
        ### BEGIN SOLUTION
        return self + other
        ### END SOLUTION

    def __sub__(self, other: Value | float) -> Value:
        ### BEGIN SOLUTION
        return self + -_as_value(other)
        ### END SOLUTION

    def __rsub__(self, other: float) -> Value:
        """other - self"""
        ### BEGIN SOLUTION
        return _as_value(other) - self
        ### END SOLUTION

    def __mul__(self, other: Value | float) -> Value:
        ### BEGIN SOLUTION
        other = _as_value(other)
        return _computed(self.data * other.data, (self, other.data), (other, self.data))
        ### END SOLUTION

    def __rmul__(self, other: float) -> Value:
        ### BEGIN SOLUTION
        return self * other
        ### END SOLUTION

    def __truediv__(self, other: Value | float) -> Value:
        ### BEGIN SOLUTION
        return self * _as_value(other) ** -1
        ### END SOLUTION

    def __rtruediv__(self, other: float) -> Value:
        """other / self"""
        ### BEGIN SOLUTION
        return _as_value(other) / self
        ### END SOLUTION

    def __neg__(self) -> Value:
        ### BEGIN SOLUTION
        return self * -1.0
        ### END SOLUTION

    def __pow__(self, exponent: float) -> Value:
        """exponent: int or float. TypeError for a Value."""
        ### BEGIN SOLUTION
        if not isinstance(exponent, int | float):
            raise TypeError(f"the exponent must be an int or a float, not {type(exponent).__name__}")
        # The product 0 * x ** -1 would divide by zero at x = 0.
        slope = exponent * self.data ** (exponent - 1) if exponent != 0 else 0.0
        return _computed(self.data**exponent, (self, slope))
        ### END SOLUTION

    def exp(self) -> Value:
        """e ** self"""
        ### BEGIN SOLUTION
        result = math.exp(self.data)
        return _computed(result, (self, result))
        ### END SOLUTION

    def log(self) -> Value:
        """The natural logarithm. ValueError for data <= 0."""
        ### BEGIN SOLUTION
        if self.data <= 0.0:
            raise ValueError(f"log of {self.data}")
        return _computed(math.log(self.data), (self, 1.0 / self.data))
        ### END SOLUTION

    def tanh(self) -> Value:
        """The hyperbolic tangent t, whose derivative is 1 - t^2."""
        ### BEGIN SOLUTION
        result = math.tanh(self.data)
        return _computed(result, (self, 1.0 - result * result))
        ### END SOLUTION

    def relu(self) -> Value:
        """max(self, 0). Its derivative at exactly 0 is 0, as in torch."""
        ### BEGIN SOLUTION
        return _computed(max(self.data, 0.0), (self, 1.0 if self.data > 0.0 else 0.0))
        ### END SOLUTION

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
        ### BEGIN SOLUTION
        adjoints = {id(self): float(seed)}
        for node in reversed(_topological_order(self)):
            adjoint = adjoints[id(node)]
            node.grad += adjoint
            for parent, slope in node._parents:
                adjoints[id(parent)] = adjoints.get(id(parent), 0.0) + adjoint * slope
        ### END SOLUTION


### BEGIN SOLUTION
def _as_value(number: Value | float) -> Value:
    return number if isinstance(number, Value) else Value(number)


def _computed(data: float, *parents: tuple[Value, float]) -> Value:
    """A Value with the operands that it came from, each with the derivative with respect to it."""
    result = Value(data)
    result._parents = parents
    return result


def _topological_order(root: Value) -> list[Value]:
    """All that root was computed from, operands before results. Depth first, with a stack of its own."""
    order: list[Value] = []
    visited = {id(root)}
    stack = [(root, iter(root._parents))]
    while stack:
        node, parents = stack[-1]
        for parent, _ in parents:
            if id(parent) not in visited:
                visited.add(id(parent))
                stack.append((parent, iter(parent._parents)))
                break
        else:
            order.append(node)
            stack.pop()
    return order


### END SOLUTION
