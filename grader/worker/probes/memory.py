"""The `memory` probe: how much memory Python and numpy took, above what was there when the call began."""

from __future__ import annotations

import tracemalloc
from types import TracebackType
from typing import Any

from grader.worker.probes import Context, Options


class Memory:
    """tracemalloc's peak. Sees Python objects and numpy's arrays; not torch's tensors nor what C libraries take."""

    def __init__(self, options: Options, context: Context) -> None:
        self._start = self._peak = self._end = 0

    def __enter__(self) -> Memory:
        self._started = not tracemalloc.is_tracing()
        if self._started:
            tracemalloc.start(1)
        tracemalloc.reset_peak()
        self._start = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._end, self._peak = tracemalloc.get_traced_memory()
        if self._started:
            tracemalloc.stop()

    def summary(self) -> dict[str, Any]:
        """`peak_bytes`, and `kept_bytes`: what was still held when the call returned, its result included."""
        return {"peak_bytes": max(0, self._peak - self._start), "kept_bytes": max(0, self._end - self._start)}
