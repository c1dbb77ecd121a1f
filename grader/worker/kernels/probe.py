"""The `kernels` probe: the evidence of every launch of one call, in Triton's interpreter."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grader.worker.kernels.interpret import Recorder, record

if TYPE_CHECKING:
    from grader.worker.probes import Context, Options


class Kernels:
    """Opens `record` around the call and names what it returned. Options: order, hostile, seed, trace."""

    def __init__(self, options: Options, context: Context) -> None:
        self._options = options
        self._context = context
        self._stack = contextlib.ExitStack()
        self._recorder: Recorder | None = None

    def __enter__(self) -> Kernels:
        watching = record(self._context.arguments, filename=self._context.filename, **self._options)
        self._recorder = self._stack.enter_context(watching)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._stack.close()
        if self._recorder is not None and self._context.result is not None:
            self._recorder.name_results({"result": self._context.result})

    def summary(self) -> dict[str, Any]:
        """See `Recorder.summary`."""
        return {} if self._recorder is None else self._recorder.summary()
