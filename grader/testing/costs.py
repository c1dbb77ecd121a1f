"""Costs: counted evidence of efficiency, and the sentences that say where a limit was passed.

>>> with largest_temporary(submission) as cost:
...     submission.online_softmax(x, block=64)
>>> cost.at_most(2 * 4 * 64, "two blocks per row")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from grader import report
from grader.testing.failure import CheckFailed

P = ParamSpec("P")
R = TypeVar("R")

_collectors: list[list[report.Cost]] = []


@contextmanager
def collect() -> Iterator[list[report.Cost]]:
    """For the judge: every cost that is asserted inside the block, kept or exceeded."""
    found: list[report.Cost] = []
    _collectors.append(found)
    try:
        yield found
    finally:
        # Not remove(found): that compares lists by their contents, and an outer one may look the same.
        _collectors.pop()


class Cost:
    """A counted cost. Each assertion is recorded, and fails the check with a sentence where it does not hold."""

    def __init__(self, name: str, value: float | None = None, unit: str = "") -> None:
        self.name = name
        self.unit = unit
        self._value = value

    @property
    def value(self) -> float:
        """The count; known when the block that it was counted in has ended."""
        if self._value is None:
            raise RuntimeError(f"{self.name} is only known after the with block")
        return self._value

    def at_most(self, limit: float, why: str = "") -> None:
        """Fails unless value <= limit. `why` says where the limit comes from."""
        self._assert(self.value <= limit, "at most", limit, why)

    def at_least(self, limit: float, why: str = "") -> None:
        """Fails unless value >= limit."""
        self._assert(self.value >= limit, "at least", limit, why)

    def exactly(self, limit: float, why: str = "") -> None:
        """Fails unless value == limit."""
        self._assert(self.value == limit, "exactly", limit, why)

    def _assert(self, holds: bool, relation: str, limit: float, why: str) -> None:
        cost = report.Cost(self.name, self.value, limit, relation, why)
        if _collectors:
            _collectors[-1].append(cost)
        if not holds:
            because = f" ({why})" if why else ""
            unit = f" {self.unit}" if self.unit else ""
            raise CheckFailed(
                f"{self.name}: {_number(self.value)}{unit}; {relation} {_number(limit)}{because}",
                got=f"{_number(self.value)}{unit}",
                expected=f"{relation} {_number(limit)}{because}",
                costs=(cost,),
                aspect=f"cost: {self.name}",
            )


def _of_each_call(measurement: Any, probe: str, key: str) -> list[Any]:
    """One count from each call in the block. A block without a call would pass every limit, so it is an error."""
    if not measurement.results:
        raise RuntimeError("no call of the submission was measured: make it inside the with block")
    return [found[probe][key] for found in measurement.results]


@contextmanager
def _counted(
    submission: Any, cost: Cost, probe: str, key: str, together: Callable[[list[float]], float]
) -> Iterator[Cost]:
    """Counts `key` with a probe around each call in the block; `together` makes one figure of the counts."""
    with submission.measure({probe: {"ops": False} if probe == "torch" else {}}) as measurement:
        yield cost
    cost._value = together(_of_each_call(measurement, probe, key))


class Dispatched(Cost):
    """The number of torch operations, and each of them in `ops` as (name, elements newly made)."""

    ops: list[tuple[str, int]]

    def count(self, wanted: Callable[[str, int], bool]) -> Cost:
        """How many operations `wanted(name, elements)` picks, as a cost."""
        return Cost("chosen operations", sum(1 for name, elements in self.ops if wanted(name, elements)))


def largest_temporary(submission: Any, unit: str = "elements") -> AbstractContextManager[Cost]:
    """The largest tensor that any torch operation made inside the block, results included. unit: "elements" or "bytes".

    >>> with largest_temporary(submission) as cost:
    ...     submission.f(x)
    >>> cost.at_most(block, "one block")
    """
    return _counted(submission, Cost("largest temporary", unit=unit), "torch", f"largest_{unit}", max)


def flops(submission: Any) -> AbstractContextManager[Cost]:
    """FLOPs of the torch matrix products inside the block (2 m n k each).

    >>> with flops(submission) as cost:
    ...     submission.f(q, k, v)
    >>> cost.at_most(4 * n * m * d, "two products")
    """
    return _counted(submission, Cost("matrix-product FLOPs"), "torch", "flops", sum)


def matrix_products(submission: Any, unit: str = "products") -> AbstractContextManager[Cost]:
    """The products of numpy arrays inside the block: `@`, `.dot`, np.matmul, np.einsum, ... unit: "products" or "flops"
    (2 m n k each).

    >>> with matrix_products(submission, "flops") as cost:
    ...     submission.mlp_forward(params, x, "relu")
    >>> cost.at_most(2 * n * d_in * d_out, "one product")
    """
    cost = Cost("matrix products", unit="" if unit == "products" else "FLOPs")
    return _counted(submission, cost, "products", unit, sum)


@contextmanager
def dispatched(submission: Any) -> Iterator[Dispatched]:
    """The torch operations inside the block.

    >>> with dispatched(submission) as cost:
    ...     submission.f(x)
    >>> cost.count(lambda name, elements: name == "aten.mm").exactly(2, "two products")
    """
    cost = Dispatched("dispatched operations")
    with submission.measure({"torch": {}}) as measurement:
        yield cost
    cost.ops = [(name, elements) for ops in _of_each_call(measurement, "torch", "ops") for name, elements in ops]
    cost._value = len(cost.ops)


def saved_for_backward(submission: Any) -> AbstractContextManager[Cost]:
    """Elements that autograd keeps for backward, each storage counted once, inputs included.

    >>> with saved_for_backward(submission) as cost:
    ...     submission.attend(q, k, v)
    >>> cost.at_most(4 * n * d + n, "q, k, v, o and lse")
    """
    return _counted(submission, Cost("kept for backward", unit="elements"), "saved", "elements", sum)


def peak_memory(submission: Any) -> AbstractContextManager[Cost]:
    """The most memory that Python and numpy held at one time beyond the start of a call, by tracemalloc.

    >>> with peak_memory(submission) as cost:
    ...     submission.attention_backward(do, q, k, v, o, lse)
    >>> cost.at_most(8 * n * n * 8, "eight score matrices of float64")
    """
    return _counted(submission, Cost("peak memory", unit="bytes"), "memory", "peak_bytes", max)


def executed_lines(submission: Any) -> AbstractContextManager[Cost]:
    """Lines of the learner's file that ran inside the block.

    >>> with executed_lines(submission) as cost:
    ...     submission.train_bpe(text, 500)
    >>> cost.at_most(40 * len(text), "40 lines a character")
    """
    return _counted(submission, Cost("executed lines"), "lines", "lines", sum)


class counting(Generic[P, R]):
    """A function that counts its calls, to be passed to the submission. It runs in the judge, so it cannot be forged.

    >>> load = counting(lambda i, j: x[:, i:j])
    >>> list(submission.softmax_blocks(load, n, block))
    >>> equal(load.calls, 2 * blocks)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", "callback")
        self.calls = 0
        self.arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self.calls += 1
        self.arguments.append((args, dict(kwargs)))
        return self._function(*args, **kwargs)


def growth(measure: Callable[[int], float | Cost], small: int, large: int) -> Cost:
    """measure(large) / measure(small): about 2 for linear work from n to 2n, 4 for quadratic.

    >>> growth(lambda n: lines_of(n), 1000, 2000).at_most(2.3, "linear")
    """
    first, second = measure(small), measure(large)
    first = first.value if isinstance(first, Cost) else first
    second = second.value if isinstance(second, Cost) else second
    return Cost(f"growth from {small:,} to {large:,}", second / first if first else float("inf"))


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"
