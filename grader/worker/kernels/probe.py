"""The kernel evidence as a probe of `grader.worker.probes`: one call of a submission, watched in the interpreter."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from grader.worker.kernels.interpret import Recorder, record
from grader.worker.probes import Context, Options


class Kernels:
    """Options: those of `interpret.record` (order, hostile, seed, trace). Summary: that of `interpret.Recorder`."""

    def __init__(self, options: Options, context: Context) -> None:
        self._context = context
        self._watch: AbstractContextManager[Recorder] = record(
            context.arguments, filename=context.filename, **dict(options)
        )
        self._recorder: Recorder | None = None

    def __enter__(self) -> Kernels:
        self._recorder = self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._watch.__exit__(kind, error, trace)

    def summary(self) -> dict[str, Any]:
        """What the call's launches did, the tensors that it returned by name."""
        if self._recorder is None:
            return {}
        self._recorder.name_results({"result": self._context.result})
        return self._recorder.summary()
