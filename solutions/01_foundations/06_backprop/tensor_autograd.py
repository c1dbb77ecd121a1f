"""Reverse mode over whole arrays: broadcasting, batched products, reductions, and the embedding look-up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Tensor:
    """An ndarray that remembers what it was computed from.

    The gradient of a tensor always has the tensor's own shape. That is the one hard rule here: if a forward operation
    repeated an operand to make shapes fit, each copy sends back a gradient, and they must be summed up again, over axes
    that were prepended and over axes of size 1 that were stretched alike.

    Operators (an operand may be a Tensor, an ndarray or a number, on either side: `np.ones(3) - t` is a Tensor too,
    which numpy will prevent unless the class tells it to keep its hands off):
        +   -   *   /   with numpy's broadcasting;   unary -
        **  with a number as exponent. d(x ** 0)/dx = 0, at x = 0 too.

    Attributes
        data           float64 ndarray. No operation and no backward pass changes the data of its operands.
        requires_grad  bool. That of a result is True if any operand's is.
        grad           None, or an ndarray of data's shape that `backward` adds to. It belongs to this tensor alone: it
                       may be changed in place, and neither another tensor's grad nor an argument of yours shares its
                       memory. Assigning None starts afresh.

    A leaf is a tensor that the user created. Numbers and ndarrays in an expression are constants.
    """

    ### BEGIN SOLUTION
    # ndarray.__sub__ and its kind return NotImplemented for such an operand, so Python asks our reflected methods.
    __array_ufunc__ = None

    ### END SOLUTION
    def __init__(self, data: np.ndarray | float | list, requires_grad: bool = False) -> None:
        """A leaf: data (an ndarray, number or nested list of numbers) as float64, grad None."""
        ### BEGIN SOLUTION
        self.data = np.asarray(data, dtype=np.float64)
        self.requires_grad = requires_grad
        self.grad: np.ndarray | None = None
        self._parents: tuple[Tensor, ...] = ()
        self._gradients: Callable[[np.ndarray], tuple[np.ndarray, ...]] | None = None
        ### END SOLUTION

    def __add__(self, other: Tensor | np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        other = _as_tensor(other)
        a, b = self.data, other.data
        return _computed(a + b, (self, other), lambda g: (_unbroadcast(g, a.shape), _unbroadcast(g, b.shape)))
        ### END SOLUTION

    def __radd__(self, other: np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        return self + other
        ### END SOLUTION

    def __sub__(self, other: Tensor | np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        return self + -_as_tensor(other)
        ### END SOLUTION

    def __rsub__(self, other: np.ndarray | float) -> Tensor:
        """other - self"""
        ### BEGIN SOLUTION
        return _as_tensor(other) - self
        ### END SOLUTION

    def __mul__(self, other: Tensor | np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        other = _as_tensor(other)
        a, b = self.data, other.data
        return _computed(a * b, (self, other), lambda g: (_unbroadcast(g * b, a.shape), _unbroadcast(g * a, b.shape)))
        ### END SOLUTION

    def __rmul__(self, other: np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        return self * other
        ### END SOLUTION

    def __truediv__(self, other: Tensor | np.ndarray | float) -> Tensor:
        ### BEGIN SOLUTION
        return self * _as_tensor(other) ** -1
        ### END SOLUTION

    def __rtruediv__(self, other: np.ndarray | float) -> Tensor:
        """other / self"""
        ### BEGIN SOLUTION
        return _as_tensor(other) / self
        ### END SOLUTION

    def __neg__(self) -> Tensor:
        ### BEGIN SOLUTION
        return self * -1.0
        ### END SOLUTION

    def __pow__(self, exponent: float) -> Tensor:
        """exponent: int or float."""
        ### BEGIN SOLUTION
        x = self.data
        slope = exponent * x ** (exponent - 1) if exponent != 0 else np.zeros_like(x)
        return _computed(x**exponent, (self,), lambda g: (g * slope,))
        ### END SOLUTION

    def __matmul__(self, other: Tensor | np.ndarray) -> Tensor:
        """(..., m, k) @ (..., k, n) -> (..., m, n). Both at least 2-D; leading dimensions broadcast as in np.matmul.

        dA = dC B^T and dB = A^T dC, where T swaps the last two axes and leaves the others alone; each summed over
        whatever was broadcast.
        """
        ### BEGIN SOLUTION
        other = _as_tensor(other)
        a, b = self.data, other.data
        return _computed(
            a @ b,
            (self, other),
            lambda g: (
                _unbroadcast(g @ np.swapaxes(b, -1, -2), a.shape),
                _unbroadcast(np.swapaxes(a, -1, -2) @ g, b.shape),
            ),
        )
        ### END SOLUTION

    def __getitem__(self, index: np.ndarray) -> Tensor:
        """Rows along axis 0, the embedding look-up: result of shape index.shape + shape[1:].

        index: integer ndarray of any shape, not empty, with entries in [0, shape[0]), each as often as you like. The
        backward pass is a scatter-add: a row that was taken three times receives the sum of three gradients, one that
        was not taken 0. It allocates arrays of the table's and the result's size, never one of index.size * shape[0].
        """
        ### BEGIN SOLUTION
        table = self.data

        def gradients(g: np.ndarray) -> tuple[np.ndarray]:
            scattered = np.zeros_like(table)
            np.add.at(scattered, index, g)  # scattered[index] += g would write a repeated row once
            return (scattered,)

        return _computed(table[index], (self,), gradients)
        ### END SOLUTION

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis as in numpy: None (all of them), an int, which may be negative, or a tuple of ints."""
        ### BEGIN SOLUTION
        axes = _axes(axis, self.data.ndim)
        shape = self.data.shape

        def gradients(g: np.ndarray) -> tuple[np.ndarray]:
            return (np.broadcast_to(_with_axes(g, axes, keepdims), shape),)

        return _computed(self.data.sum(axis=axes, keepdims=keepdims), (self,), gradients)
        ### END SOLUTION

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis, keepdims as for `sum`."""
        ### BEGIN SOLUTION
        total = self.sum(axis, keepdims)
        return total * (total.data.size / self.data.size)
        ### END SOLUTION

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis, keepdims as for `sum`. Equal maxima share the gradient equally, as in torch.amax."""
        ### BEGIN SOLUTION
        axes = _axes(axis, self.data.ndim)
        top = self.data.max(axis=axes, keepdims=True)
        is_top = self.data == top
        share = is_top / is_top.sum(axis=axes, keepdims=True)
        result = top if keepdims else np.squeeze(top, axis=axes)
        return _computed(result, (self,), lambda g: (_with_axes(g, axes, keepdims) * share,))
        ### END SOLUTION

    def reshape(self, *shape: int) -> Tensor:
        """t.reshape(4, -1): the new lengths, one of which may be -1."""
        ### BEGIN SOLUTION
        old = self.data.shape
        return _computed(self.data.reshape(shape), (self,), lambda g: (g.reshape(old),))
        ### END SOLUTION

    def transpose(self, *axes: int) -> Tensor:
        """t.transpose(1, 2, 0): axis i of the result is axis axes[i] of t, axes[i] >= 0. No arguments: all reversed.

        Mind the way back: a three-cycle is not its own inverse.
        """
        ### BEGIN SOLUTION
        order = axes or tuple(reversed(range(self.data.ndim)))
        return _computed(self.data.transpose(order), (self,), lambda g: (g.transpose(np.argsort(order)),))
        ### END SOLUTION

    def exp(self) -> Tensor:
        ### BEGIN SOLUTION
        result = np.exp(self.data)
        return _computed(result, (self,), lambda g: (g * result,))
        ### END SOLUTION

    def log(self) -> Tensor:
        """The natural logarithm."""
        ### BEGIN SOLUTION
        x = self.data
        return _computed(np.log(x), (self,), lambda g: (g / x,))
        ### END SOLUTION

    def relu(self) -> Tensor:
        """max(x, 0), elementwise; the derivative at exactly 0 is 0."""
        ### BEGIN SOLUTION
        x = self.data
        return _computed(np.maximum(x, 0.0), (self,), lambda g: (g * (x > 0.0),))
        ### END SOLUTION

    def backward(self, grad: np.ndarray | None = None) -> None:
        """Adds d(sum(grad * self))/d(leaf) to .grad of every leaf with requires_grad that self was computed from.

        grad: an ndarray of self's shape, which is not changed. None stands for 1 if self has exactly one element,
        whatever its number of axes; otherwise ValueError.

        self may itself be a leaf. Constants, leaves without requires_grad and intermediate results keep grad None. As
        in the scalar engine, every call adds, earlier calls have no influence on what it adds, each operation is walked
        once, and expressions may be thousands of operations deep.
        """
        ### BEGIN SOLUTION
        if grad is None:
            if self.data.size != 1:
                raise ValueError(f"backward() needs a gradient for a tensor of shape {self.data.shape}")
            grad = np.ones_like(self.data)
        adjoints = {id(self): np.asarray(grad, dtype=np.float64)}
        for node in reversed(_topological_order(self)):
            adjoint = adjoints.pop(id(node))
            if node._gradients is None:
                # New arrays, never +=: a gradient may be a view of another one, or the caller's own.
                node.grad = np.array(adjoint if node.grad is None else node.grad + adjoint)
                continue
            for parent, part in zip(node._parents, node._gradients(adjoint), strict=True):
                if parent.requires_grad:
                    known = adjoints.get(id(parent))
                    adjoints[id(parent)] = np.asarray(part) if known is None else known + part
        ### END SOLUTION


### BEGIN SOLUTION
def _as_tensor(value: Tensor | np.ndarray | float) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _computed(
    data: np.ndarray, parents: tuple[Tensor, ...], gradients: Callable[[np.ndarray], tuple[np.ndarray, ...]]
) -> Tensor:
    """A result with its operands, and the function from its gradient to theirs."""
    result = Tensor(data, requires_grad=any(parent.requires_grad for parent in parents))
    if result.requires_grad:
        result._parents, result._gradients = parents, gradients
    return result


def _unbroadcast(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums a gradient of the broadcast shape back to the shape that the operand had."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    stretched = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return grad.sum(axis=stretched, keepdims=True)


def _axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def _with_axes(g: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """A reduction's gradient with the axes that were reduced away put back, with length 1."""
    return g if keepdims else np.expand_dims(g, axes)


def _topological_order(root: Tensor) -> list[Tensor]:
    """All that root's gradient flows to, operands before results."""
    order: list[Tensor] = []
    visited = {id(root)}
    stack = [(root, iter(root._parents))]
    while stack:
        node, parents = stack[-1]
        for parent in parents:
            if parent.requires_grad and id(parent) not in visited:
                visited.add(id(parent))
                stack.append((parent, iter(parent._parents)))
                break
        else:
            order.append(node)
            stack.pop()
    return order


### END SOLUTION
