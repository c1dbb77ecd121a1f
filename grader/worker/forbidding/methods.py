"""Methods of types written in C: `list.remove`, `collections.deque.remove`. Their calls are watched by the interpreter.

From Python 3.12 on only calls in the submission's own code cost anything; before, every call does while a submission
runs that has such a name forbidden.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import BuiltinMethodType, CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from grader.worker.forbidding.names import Found

if TYPE_CHECKING:
    from grader.worker.forbid import ForbidGuard

_TOOL = 4
"""A tool number of sys.monitoring that no debugger, profiler or coverage tool claims by convention."""


class MethodCalls:
    """Refuses calls of some methods of built-in types in the submission's file."""

    def __init__(self, guard: ForbidGuard) -> None:
        self._guard = guard
        self._methods: dict[tuple[type, str], str] = {}
        self._names: set[str] = set()
        self._open = 0
        self._lock = threading.Lock()

    def refuse(self, written: str, found: Found) -> str:
        """Refuses a method, on objects of subclasses too unless these have their own."""
        if found.absent or isinstance(found.value, FunctionType) or not callable(found.value):
            return ""
        self._methods[found.parent, found.attribute] = written
        self._names.add(found.attribute)
        return "calling it"

    @property
    def is_watching(self) -> bool:
        """Whether any method is refused."""
        return bool(self._methods)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watches the calls of this thread (from Python 3.12 on: of all threads)."""
        if not self._methods:
            yield
        elif sys.version_info >= (3, 12):
            with self._monitored():
                yield
        else:
            before = sys.getprofile()
            sys.setprofile(self._profile)
            try:
                yield
            finally:
                sys.setprofile(before)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in self._names and self._guard.is_submission(frame):
            name = self._name_of(argument, getattr(argument, "__self__", None))
            if name:
                # An exception takes the profile function out.
                self._guard.refuse(name, frame)

    def _name_of(self, function: Any, owner: object) -> str:
        for (kind, attribute), name in self._methods.items():
            if isinstance(function, BuiltinMethodType):
                if function.__name__ == attribute and isinstance(owner, kind):
                    return name
            elif function is vars(kind).get(attribute):
                return name
        return ""

    if sys.version_info >= (3, 12):

        @contextlib.contextmanager
        def _monitored(self) -> Iterator[None]:
            monitoring = sys.monitoring
            with self._lock:
                self._open += 1
                if self._open == 1:
                    monitoring.use_tool_id(_TOOL, "forbidden methods")
                    monitoring.register_callback(_TOOL, monitoring.events.CALL, self._call)
                    monitoring.set_events(_TOOL, monitoring.events.CALL)
                    monitoring.restart_events()
            try:
                yield
            finally:
                with self._lock:
                    self._open -= 1
                    if not self._open:
                        monitoring.set_events(_TOOL, monitoring.events.NO_EVENTS)
                        monitoring.register_callback(_TOOL, monitoring.events.CALL, None)
                        monitoring.free_tool_id(_TOOL)

        def _call(self, code: CodeType, offset: int, function: Any, first: object) -> Any:
            if not self._guard.is_own(code):
                return sys.monitoring.DISABLE
            name = self._name_of(function, getattr(function, "__self__", None))
            if name:
                self._guard.refuse(name, sys._getframe(1))
            return None
