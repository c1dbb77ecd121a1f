"""Probes: what one call of a submission cost, counted in the worker while it ran.

A probe is a context manager opened around the call. When it has closed, `summary()` is plain data:

- `torch`: operations that reach torch's dispatcher, tensors made, FLOPs of products. Summary: `largest_elements`,
  `largest_op`, `largest_bytes`, `flops`, `products`, `peak_bytes`, `ops` (a list of [name, elements made]; the option
  `{"ops": False}` leaves it out).
- `saved`: what autograd keeps for backward. Summary: `elements`, `bytes`, `extra_elements`, `extra_bytes`, `tensors`.
- `memory`: memory that Python and numpy took, by tracemalloc. Summary: `peak_bytes`, `kept_bytes`.
- `products`: matrix products of numpy's that the submission's file asked for. Summary: `products`, `flops`.
- `lines`: lines of the submission's file that ran. Summary: `lines`.
- `kernels`: every launch of a Triton kernel, in the interpreter. Summary: see `grader.worker.kernels`.

Any set of them may be open at once. They nest in the order of `PROBES`: `memory` is the innermost, so that it sees as
little as can be of the others' bookkeeping (with `torch` open, some 200 bytes an operation remain in it).

The counts come from the process that runs the submission, so a submission that sets out to forge them can. They are
evidence about honest programs; what must not be forged is counted in the judge.
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from grader.worker.probes.pause import paused

Options = Mapping[str, Any]

__all__ = ["PROBES", "Context", "Options", "Probe", "opened", "paused"]


@dataclass
class Context:
    """What a probe may know about the call that it watches."""

    filename: str
    """The submission's file, as in its code objects."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    """The call's arguments by the names in the function's signature; for a method also `self`."""
    result: object = None
    """What the call returned; set before the probes close."""


class Probe(Protocol):
    """Watches one call."""

    def __enter__(self) -> object:
        """Starts to count."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stops counting; the call may have failed."""

    def summary(self) -> dict[str, Any]:
        """What was counted, as plain data. Called once, after the probe has closed."""


PROBES = {
    "kernels": "grader.worker.kernels.probe.Kernels",
    "saved": "grader.worker.probes.saved.Saved",
    "torch": "grader.worker.probes.dispatched.Dispatched",
    "products": "grader.worker.probes.products.Products",
    "lines": "grader.worker.probes.lines.Lines",
    "memory": "grader.worker.probes.memory.Memory",
}
"""Classes of probes, from the outermost to the innermost; only those that are asked for are imported."""


def _probe(name: str, options: Options, context: Context) -> Probe:
    module, _, kind = PROBES[name].rpartition(".")
    probe: Probe = getattr(importlib.import_module(module), kind)(options, context)
    return probe


_open = [0]
"""How many calls are being measured, one inside the other by way of callbacks."""


_threads_at_start = [_thread._count()]
"""Threads that Python counts in a worker before it holds a submission: a fork keeps the count of its parent."""


def remember_threads() -> None:
    """Call it before the submission is loaded."""
    _threads_at_start[0] = _thread._count()


def _no_old_threads() -> None:
    """Refuses to count beside a thread that no probe could follow; those that the call itself starts are followed."""
    if not _open[0] and _thread._count() > _threads_at_start[0]:
        raise RuntimeError(
            "a thread that was started before this call is still running; its work could not be counted, so end it "
            "before the function that started it returns"
        )


@contextlib.contextmanager
def opened(
    wanted: Mapping[str, Options], filename: str, arguments: Mapping[str, object], results: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Opens the wanted probes around one call; at the end `results` holds the summary of each under its name.

    The caller puts what the call returned into `results["value"]` before the block ends (`saved` looks at it).

    >>> results = {}
    >>> with opened({"memory": {}}, "x.py", {}, results):
    ...     results["value"] = bytearray(1000)
    >>> results["memory"]["peak_bytes"] >= 1000
    True
    """
    unknown = sorted(set(wanted) - set(PROBES))
    if unknown:
        raise ValueError(f"no probe {unknown[0]!r}; there are {', '.join(PROBES)}")
    _no_old_threads()
    context = Context(filename, arguments)
    chosen = {name: _probe(name, wanted[name] or {}, context) for name in PROBES if name in wanted}
    results.update({name: {} for name in chosen})
    _open[0] += 1
    try:
        with contextlib.ExitStack() as stack:
            for probe in chosen.values():
                stack.enter_context(probe)
            try:
                yield results
            finally:
                context.result = results.get("value")
    finally:
        _open[0] -= 1
        for name, probe in chosen.items():
            results[name] = probe.summary()
        context.result = None
