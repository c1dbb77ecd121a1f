"""Names read from modules: `np.linalg.inv`, `from scipy.special import softmax`, `torch.optim`.

A module whose class has a property of that name runs the property when the attribute is read, whether by a dot, by
`getattr` or by `from ... import`; the module's own functions, which use its dict, notice nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from grader.worker.forbidding.names import Found

if TYPE_CHECKING:
    from grader.worker.forbid import ForbidGuard


class Attributes:
    """Refuses attributes of modules to the submission."""

    def __init__(self, guard: ForbidGuard) -> None:
        self._guard = guard
        self._classes: dict[int, tuple[ModuleType, type]] = {}
        self._partly: dict[int, tuple[Any, dict[str, str]]] = {}
        self._wanted: dict[int, tuple[Any, str]] = {}

    def refuse(self, written: str, found: Found) -> str:
        """Refuses the attribute, and the same object wherever else a module holds it."""
        if found.parent is None:
            self._refuse_aliases(written, found.value)
            return "import"
        if not isinstance(found.parent, ModuleType):
            return self._refuse_part(written, found)
        self._watch(found.parent, found.attribute, written)
        if not found.absent:
            self.refuse_everywhere(written, found.value)
        return "absent" if found.absent else "reading it" if _is_read(found.value) else "calling it"

    def refuse_everywhere(self, written: str, value: Any) -> None:
        """Refuses this object under every name that a loaded module has for it: in the next `search`."""
        self._wanted[id(value)] = (value, written)

    def search(self) -> None:
        """Goes through all modules once for the objects that are to be refused everywhere."""
        wanted, self._wanted = self._wanted, {}
        if not wanted:
            return
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or self._guard.is_allowed_module(module):
                continue
            for attribute, held in list(vars(module).items()):
                if id(held) in wanted and isinstance(attribute, str):
                    self._watch(module, attribute, wanted[id(held)][1])

    def remove(self) -> None:
        """Gives every module its old class again."""
        for module, original in self._classes.values():
            module.__class__ = original
        self._classes.clear()

    def _refuse_aliases(self, written: str, module: ModuleType) -> None:
        # `textwrap.re` is `re`. Only for the standard library: torch is a global of a thousand modules of its own.
        if written in sys.stdlib_module_names:
            self.refuse_everywhere(written, module)

    def _refuse_part(self, written: str, found: Found) -> str:
        """`numpy.logaddexp.reduce`: the object as such may be used, but not this attribute."""
        parent = found.parent
        _, parts = self._partly.setdefault(id(parent), (parent, {}))
        parts[found.attribute] = written
        self._wanted.setdefault(id(parent), (parent, ""))
        return "calling it"

    def _watch(self, module: ModuleType, attribute: str, written: str) -> None:
        """Puts a property in front of the attribute. An empty `written`: only parts of it are refused."""
        if id(module) not in self._classes:
            original = type(module)
            try:
                module.__class__ = type("module", (original,), {"__module__": "builtins"})
            except TypeError:  # a module object that is not Python's own kind
                return
            self._classes[id(module)] = (module, original)
        watched = type(module)
        if not written and attribute in vars(watched):
            return
        guard, parts = self._guard, self._partly

        def read(self: ModuleType) -> Any:
            try:
                value = vars(self)[attribute]
            except KeyError:
                if written and guard.is_submission(sys._getframe(1)):
                    guard.refuse(written, sys._getframe(1))
                raise AttributeError(attribute) from None  # the module's own __getattr__ comes next
            if not guard.is_submission(sys._getframe(1)):
                return value
            members = parts.get(id(value), (None, {}))[1]
            if not written:
                return Refused("", value, guard, members)
            if _is_read(value):
                guard.refuse(written, sys._getframe(1))
            return Refused(written, value, guard, members)

        def write(self: ModuleType, value: Any) -> None:
            vars(self)[attribute] = value

        def delete(self: ModuleType) -> None:
            vars(self).pop(attribute, None)

        setattr(watched, attribute, property(read, write, delete))


def _is_read(value: Any) -> bool:
    """Whether reading is use: a module, a class or a constant does its harm without a call of its own."""
    return isinstance(value, (ModuleType, type)) or not callable(value)


class Refused:
    """Stands for a function in the submission. An import that is never used does no harm; a call is refused."""

    __slots__ = ("_guard", "_members", "_name", "_real")

    def __init__(self, name: str, real: Any, guard: ForbidGuard, members: dict[str, str]) -> None:
        self._name = name
        self._real = real
        self._guard = guard
        self._members = members

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._name:
            self._guard.refuse(self._name, sys._getframe(1))
        return self._real(*args, **kwargs)

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._real, attribute)
        name = self._members.get(attribute) or (self._name and f"{self._name}.{attribute}")
        if name and callable(value) and not attribute.startswith("__"):
            return Refused(name, value, self._guard, {})
        return value

    def __repr__(self) -> str:
        return f"<{self._name}: not allowed in this exercise>" if self._name else repr(self._real)
