"""Operations that an exercise forbids, refused where the work happens and only when the submission asks for them.

`install(["torch.softmax", "numpy.linalg.inv", "regex", "list.remove"], filename)` before the submission is loaded, then
`with guard.active():` around its import and around every call. Nothing is searched for in the source: a function of the
learner's own called `cumsum`, a comment, a string are no matter. What another library does inside is no matter either:
`reshape` may call `contiguous`, scipy may import torch, autograd may run a softmax backward.

How each kind of name is enforced:

- `torch.f`, `Tensor.f`, `torch.nn.functional.f`: the function and everything that is only another way to call it (the
  method, the in-place form, `torch.special.f`, `torch._f`, `torch.ops.aten.f`, the operator, `nn.F`), at the call.
- other functions (`numpy.f`, `scipy.m.f`, `math.f`): whoever reads them from a module, under any alias, in the
  submission's file gets a stand-in that refuses to be called.
- modules, classes, dtypes: reading them from a module in the submission's file, and importing them, is refused.
- builtins (`eval`): at the call. Methods of built-in types (`list.remove`): at the call.

Modules that are imported later are covered when they arrive. Limits, by design: who digs through `vars(module)`,
`sys.modules`, `gc` or a private module that wraps the function again gets around this; a numpy dtype can still be named
by a string (`x.astype("float16")`).
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, NoReturn

from grader.worker.forbidding.advice import advice_for
from grader.worker.forbidding.attributes import Attributes
from grader.worker.forbidding.builtin_functions import BuiltinFunctions
from grader.worker.forbidding.callers import Callers
from grader.worker.forbidding.imports import Imports
from grader.worker.forbidding.methods import MethodCalls
from grader.worker.forbidding.names import Found, canonical, resolve
from grader.worker.probes.new_threads import entered_in_new_threads

if TYPE_CHECKING:
    from grader.worker.forbidding.torch_calls import TorchCalls

__all__ = ["ForbidGuard", "ForbiddenImport", "ForbiddenOperation", "Hit", "install"]


class ForbiddenOperation(RuntimeError):
    """The submission used what the exercise forbids. Its message says what to write instead."""


class ForbiddenImport(ForbiddenOperation, ImportError):
    """The submission imported what the exercise forbids."""


@dataclass(frozen=True)
class Hit:
    """One use of a forbidden operation; it counts even if the submission swallowed the exception."""

    name: str
    message: str
    line: int
    """In the submission's file; 0 if it cannot be said."""

    def __str__(self) -> str:
        return f"{self.message} (line {self.line})" if self.line else self.message


def install(names: Sequence[str], filename: str) -> ForbidGuard:
    """Prepares to refuse `names` to code of `filename`. With no names, nothing is touched.

    >>> guard = install(["math.fsum"], "x.py")
    >>> exec(compile("import math\\nmath.fsum([1.0])", "x.py", "exec"))
    Traceback (most recent call last):
    grader.worker.forbid.ForbiddenOperation: math.fsum is not allowed in this exercise: write it yourself
    >>> guard.uninstall()
    """
    guard = ForbidGuard(filename)
    try:
        if names:
            guard.forbid(names)
    except BaseException:
        guard.uninstall()
        raise
    return guard


class ForbidGuard:
    """What is forbidden, and what was used all the same."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.hits: list[Hit] = []
        self.ways: dict[str, str] = {}
        """How each name is enforced, in words: "import" if its module has not arrived (and will be refused, if it is
        what is forbidden), "absent" if its module has no such thing."""
        self._callers = Callers(filename)
        self._attributes = Attributes(self)
        self._builtins = BuiltinFunctions(self)
        self._methods = MethodCalls(self)
        self._imports = Imports(self)
        self._torch: TorchCalls | None = None
        self._waiting: dict[str, str] = {}
        self._thread = threading.local()

    def forbid(self, names: Iterable[str]) -> None:
        """Adds names."""
        for written in names:
            name = canonical(written)
            self._waiting[name] = written
            self.ways[written] = "import"
        self._imports.refuse(self._waiting)
        self.look_again()

    def uninstall(self) -> None:
        """Puts everything back as it was (for tests; a worker keeps its guard for life)."""
        self._imports.remove()
        self._builtins.remove()
        self._attributes.remove()
        self._waiting.clear()
        self.ways.clear()
        if self._torch is not None:
            self._torch.remove()
            self._torch = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be watched while the submission runs: imports and attributes are refused anyway."""
        return not self._waiting and not self._methods.is_watching and self._torch is None

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Around everything that the submission runs: its import, each call, each step of a generator of its."""
        if not self.ways or getattr(self._thread, "stack", None) is not None:
            yield
            return
        with contextlib.ExitStack() as stack:
            self._thread.stack = stack
            try:
                stack.enter_context(entered_in_new_threads(self._in_thread))
                stack.enter_context(self._in_thread())
                yield
            finally:
                self._thread.stack = None

    @contextlib.contextmanager
    def _in_thread(self) -> Iterator[None]:
        with self._methods.watched(), self._torch_watched():
            yield

    def _torch_watched(self) -> contextlib.AbstractContextManager[None]:
        return self._torch.watched() if self._torch is not None else contextlib.nullcontext()

    # -- for the parts ------------------------------------------------------------------------------------------------

    def is_submission(self, frame: FrameType | None) -> bool:
        """Whether this is code of the submission's (or of a string that it executes)."""
        return self._callers.is_submission(frame)

    def is_own(self, code: CodeType) -> bool:
        """Whether this is code of the submission's."""
        return self._callers.is_own(code)

    def is_allowed_module(self, module: ModuleType) -> bool:
        """Whether this is the submission's own module, which may be handled as it likes."""
        return getattr(module, "__file__", None) == self.filename

    def refuse(
        self, name: str, frame: FrameType | None = None, *, shown: str = "", importing: bool = False
    ) -> NoReturn:
        """Remembers the use and raises. `shown` is what the submission really called, where that is another name."""
        line = self._callers.line(frame or sys._getframe(1))
        message = f"{shown or name} is not allowed in this exercise: {advice_for(name)}"
        self.hits.append(Hit(name, message, line))
        raise (ForbiddenImport if importing else ForbiddenOperation)(message)

    def look_again(self) -> None:
        """Sets up every name whose module has arrived. Called after each import that may have brought one."""
        torch_before = self._torch
        for name, written in list(self._waiting.items()):
            found = resolve(name)
            if found is None:
                continue
            self.ways[written] = self._enforce(name, written, found)
            if not found.absent:
                del self._waiting[name]
        self._attributes.search()
        stack = getattr(self._thread, "stack", None)
        if self._torch is not torch_before and stack is not None:  # torch arrived in the middle of a call
            stack.enter_context(self._torch_watched())

    def _enforce(self, name: str, written: str, found: Found) -> str:
        if name.startswith("builtins."):
            return self._builtins.refuse(written, found)
        ways = []
        if isinstance(found.parent, type):
            if not name.startswith("torch.Tensor."):
                ways.append(self._methods.refuse(written, found))
        else:
            ways.append(self._attributes.refuse(written, found))
        if name.startswith("torch.") and not found.absent:
            ways.append(self._refuse_torch(name, written, found))
        return ", ".join(way for way in ways if way)

    def _refuse_torch(self, name: str, written: str, found: Found) -> str:
        if self._torch is None:
            # Only now that torch is there: this file must not be what brings it in.
            from grader.worker.forbidding.torch_calls import TorchCalls

            self._torch = TorchCalls(self)
        way, classes = self._torch.refuse(name, written, found.value)
        for kind in classes:
            self._attributes.refuse_everywhere(written, kind)
        return way
