"""What a forbidden name stands for."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass
from typing import Any, Final

_ABSENT: Final = object()

_SHORT = {"np": "numpy", "Tensor": "torch.Tensor", "F": "torch.nn.functional", "nn": "torch.nn"}


@dataclass(frozen=True)
class Found:
    """The object behind a name, and where it hangs."""

    parent: Any
    """A module, a class, a function object such as a ufunc; None for a top-level module."""
    attribute: str
    value: Any

    @property
    def absent(self) -> bool:
        """The parent is there, and has no such attribute (yet)."""
        return self.value is _ABSENT


def canonical(name: str) -> str:
    """The full name: "np.einsum" is numpy.einsum, "eval" is builtins.eval, "list.remove" is builtins.list.remove."""
    first, dot, rest = name.partition(".")
    if first in _SHORT and (dot or first in ("np", "Tensor")):
        return _SHORT[first] + dot + rest
    if hasattr(builtins, first) and not first.startswith("__"):
        return f"builtins.{name}"
    return name


def resolve(name: str) -> Found | None:
    """The object behind a canonical name, without importing anything; None until its parent has been imported."""
    if name in sys.modules and sys.modules[name] is not None:
        parent_name, _, attribute = name.rpartition(".")
        return Found(sys.modules.get(parent_name), attribute or name, sys.modules[name])
    parts = name.split(".")
    value: Any = sys.modules.get(parts[0])
    if value is None or len(parts) == 1:
        return None
    parent = None
    for index, part in enumerate(parts[1:], 1):
        parent = value
        module = sys.modules.get(".".join(parts[: index + 1]))
        value = module if module is not None else _attribute(parent, part)
        if value is _ABSENT and index < len(parts) - 1:
            return None
    return Found(parent, parts[-1], value)


def _attribute(holder: Any, name: str) -> Any:
    """An attribute, without waking a module's lazy `__getattr__`."""
    if hasattr(holder, "__dict__") and not isinstance(holder, type):
        return vars(holder).get(name, _ABSENT)
    return getattr(holder, name, _ABSENT)
