"""Reverse mode over whole arrays: broadcasting, batched products, reductions, and the embedding look-up."""

# Not allowed here, in any form: torch, jax, autograd, sys.setrecursionlimit.

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

    def __init__(self, data: np.ndarray | float | list, requires_grad: bool = False) -> None:
        """A leaf: data (an ndarray, number or nested list of numbers) as float64, grad None."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__init__")

    def __add__(self, other: Tensor | np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__add__")

    def __radd__(self, other: np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__radd__")

    def __sub__(self, other: Tensor | np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__sub__")

    def __rsub__(self, other: np.ndarray | float) -> Tensor:
        """other - self"""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__rsub__")

    def __mul__(self, other: Tensor | np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__mul__")

    def __rmul__(self, other: np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__rmul__")

    def __truediv__(self, other: Tensor | np.ndarray | float) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__truediv__")

    def __rtruediv__(self, other: np.ndarray | float) -> Tensor:
        """other / self"""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__rtruediv__")

    def __neg__(self) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__neg__")

    def __pow__(self, exponent: float) -> Tensor:
        """exponent: int or float."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__pow__")

    def __matmul__(self, other: Tensor | np.ndarray) -> Tensor:
        """(..., m, k) @ (..., k, n) -> (..., m, n). Both at least 2-D; leading dimensions broadcast as in np.matmul.

        dA = dC B^T and dB = A^T dC, where T swaps the last two axes and leaves the others alone; each summed over
        whatever was broadcast.
        """
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__matmul__")

    def __getitem__(self, index: np.ndarray) -> Tensor:
        """Rows along axis 0, the embedding look-up: result of shape index.shape + shape[1:].

        index: integer ndarray of any shape, not empty, with entries in [0, shape[0]), each as often as you like. The
        backward pass is a scatter-add: a row that was taken three times receives the sum of three gradients, one that
        was not taken 0. It allocates arrays of the table's and the result's size, never one of index.size * shape[0].
        """
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.__getitem__")

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis as in numpy: None (all of them), an int, which may be negative, or a tuple of ints."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.sum")

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis, keepdims as for `sum`."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.mean")

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """axis, keepdims as for `sum`. Equal maxima share the gradient equally, as in torch.amax."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.max")

    def reshape(self, *shape: int) -> Tensor:
        """t.reshape(4, -1): the new lengths, one of which may be -1."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.reshape")

    def transpose(self, *axes: int) -> Tensor:
        """t.transpose(1, 2, 0): axis i of the result is axis axes[i] of t, axes[i] >= 0. No arguments: all reversed.

        Mind the way back: a three-cycle is not its own inverse.
        """
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.transpose")

    def exp(self) -> Tensor:
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.exp")

    def log(self) -> Tensor:
        """The natural logarithm."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.log")

    def relu(self) -> Tensor:
        """max(x, 0), elementwise; the derivative at exactly 0 is 0."""
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.relu")

    def backward(self, grad: np.ndarray | None = None) -> None:
        """Adds d(sum(grad * self))/d(leaf) to .grad of every leaf with requires_grad that self was computed from.

        grad: an ndarray of self's shape, which is not changed. None stands for 1 if self has exactly one element,
        whatever its number of axes; otherwise ValueError.

        self may itself be a leaf. Constants, leaves without requires_grad and intermediate results keep grad None. As
        in the scalar engine, every call adds, earlier calls have no influence on what it adds, each operation is walked
        once, and expressions may be thousands of operations deep.
        """
        raise NotImplementedError("1.6/tensor_autograd: write Tensor.backward")
