"""The `lines` probe: how many lines of the submission's file ran, each time counted again."""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar

from grader.worker.own_code import is_made
from grader.worker.probes import Context, Options

UNKNOWN = 1 << 60
"""Lines of a call that switched the counting off: more than any limit allows."""

_TOOL = 3
"""A tool number of sys.monitoring that no debugger, profiler or coverage tool claims by convention."""


class Lines:
    """Counts executed lines, in every thread. Generators count where they run, comprehensions once a round.

    Work inside C (`sorted`, `sum`, numpy) is one line, whatever its size.
    """

    def __init__(self, options: Options, context: Context) -> None:
        self._filename = context.filename
        self._count = 0

    def __enter__(self) -> Lines:
        if sys.version_info >= (3, 12):
            self._watch()
        else:
            self._before = (sys.gettrace(), threading.gettrace())
            threading.settrace(self._enter_frame)
            sys.settrace(self._enter_frame)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if sys.version_info >= (3, 12):
            self._unwatch()
        else:
            if sys.gettrace() != self._enter_frame:
                self._count = UNKNOWN
            sys.settrace(self._before[0])
            # typeshed wants a function; None, the usual value, is what threading itself starts with.
            threading.settrace(self._before[1])  # type: ignore[arg-type]

    def summary(self) -> dict[str, Any]:
        """`lines`."""
        return {"lines": self._count}

    def _is_own(self, code: CodeType) -> bool:
        return code.co_filename == self._filename or is_made(code)

    if sys.version_info >= (3, 12):
        _open: ClassVar[list[Lines]] = []
        """One tool serves all of them: a call may be measured inside another (by way of a callback)."""

        def _watch(self) -> None:
            monitoring = sys.monitoring
            if not self._open:
                monitoring.use_tool_id(_TOOL, "lines of a submission")
                monitoring.register_callback(_TOOL, monitoring.events.LINE, self._line)
                monitoring.register_callback(_TOOL, monitoring.events.JUMP, self._jump)
                monitoring.set_events(_TOOL, monitoring.events.LINE | monitoring.events.JUMP)
            self._open.append(self)
            # Places that another probe switched off, for they were not in its file.
            monitoring.restart_events()

        def _unwatch(self) -> None:
            monitoring = sys.monitoring
            self._open.remove(self)
            if not self._is_watching():
                self._count = UNKNOWN
                return
            if not self._open:
                monitoring.set_events(_TOOL, monitoring.events.NO_EVENTS)
                monitoring.register_callback(_TOOL, monitoring.events.LINE, None)
                monitoring.register_callback(_TOOL, monitoring.events.JUMP, None)
                monitoring.free_tool_id(_TOOL)

        @staticmethod
        def _is_watching() -> bool:
            monitoring = sys.monitoring
            wanted = monitoring.events.LINE | monitoring.events.JUMP
            return monitoring.get_tool(_TOOL) is not None and monitoring.get_events(_TOOL) == wanted

        @classmethod
        def _line(cls, code: CodeType, line: int) -> Any:
            counting = [probe for probe in cls._open if probe._is_own(code)]
            for probe in counting:
                probe._count += 1
            return None if counting else sys.monitoring.DISABLE

        @classmethod
        def _jump(cls, code: CodeType, start: int, target: int) -> Any:
            # Back to the same line, as in a comprehension: no LINE event tells of it, while settrace does.
            if target >= start or _line_at(code, start) != _line_at(code, target):
                return sys.monitoring.DISABLE
            return cls._line(code, 0)

    def _enter_frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._step if self._is_own(frame.f_code) else None

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._count += 1
        return self._step


@lru_cache(maxsize=4096)
def _line_at(code: CodeType, offset: int) -> int | None:
    for start, end, line in code.co_lines():
        if start <= offset < end:
            return line
    return None
