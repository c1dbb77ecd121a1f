"""Built-in functions: `eval`, `exec`, `sorted`, `open`."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any

from grader.worker.forbidding.names import Found

if TYPE_CHECKING:
    from grader.worker.forbid import ForbidGuard

_OF_THE_CALLER = frozenset({"globals", "locals", "vars", "dir", "super", "breakpoint", "__import__"})
"""Built-ins that look at their caller's frame: a function in front of them would be that caller."""


class BuiltinFunctions:
    """Puts a function in front of a built-in one, which refuses the submission only."""

    def __init__(self, guard: ForbidGuard) -> None:
        self._guard = guard
        self._originals: dict[str, Any] = {}

    def refuse(self, written: str, found: Found) -> str:
        """Refuses a built-in function, or a method of a built-in type."""
        if found.parent is not builtins:
            return self._guard._methods.refuse(written, found)
        name, real, guard = found.attribute, found.value, self._guard
        if name in _OF_THE_CALLER or isinstance(real, type) or not callable(real):
            return ""

        def guarded(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if guard.is_submission(frame):
                guard.refuse(written, frame)
            if name in ("eval", "exec") and len(args) == 1 and not kwargs:
                return real(args[0], frame.f_globals, frame.f_locals)
            return real(*args, **kwargs)

        guarded.__name__ = guarded.__qualname__ = name
        guarded.__doc__ = real.__doc__
        self._originals[name] = real
        setattr(builtins, name, guarded)
        return "calling it"

    def remove(self) -> None:
        """Puts the originals back."""
        for name, real in self._originals.items():
            setattr(builtins, name, real)
        self._originals.clear()
