"""What a submission has: names, methods, parameters, classes that may be copied."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Mapping
from typing import Any


def attribute(target: Any, name: str) -> Any:
    """A method by name; `name` may be dotted, for a method of a class or a static method."""
    for part in name.split("."):
        target = getattr(target, part)
    return target


def crosses_by_value(kind: type) -> bool:
    """Frozen dataclasses, and those without methods of their own: nothing is lost when they are copied."""
    if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return True
    return not any(
        inspect.isfunction(member) and not (name.startswith("__") and name.endswith("__"))
        for base in kind.__mro__
        for name, member in vars(base).items()
    )


def method_names(value: Any) -> list[str]:
    """Names that the judge may call without asking first whether they are methods."""
    found: set[str] = set()
    kind = value if isinstance(value, type) else type(value)
    for base in kind.__mro__:
        for name, member in list(vars(base).items()):
            if isinstance(member, types.FunctionType | classmethod | staticmethod | types.BuiltinFunctionType) or (
                not isinstance(member, type) and callable(member) and inspect.isroutine(member)
            ):
                found.add(name)
    with contextlib.suppress(Exception):
        found -= set(vars(value)) if not isinstance(value, type) else set()
    return sorted(found)


def public_names(module: types.ModuleType) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, value in list(vars(module).items()):
        if name.startswith("_"):
            continue
        own = getattr(value, "__module__", module.__name__) == module.__name__
        if isinstance(value, type):
            names[name] = "class" if own else "imported"
        elif callable(value):
            names[name] = "function" if own else "imported"
        else:
            names[name] = "value"
    return names


def named_arguments(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the function's own signature, as far as they can be bound."""
    try:
        return dict(inspect.signature(function).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs}
