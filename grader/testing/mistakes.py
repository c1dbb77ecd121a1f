"""Wrong programs, written as small edits of the reference solution."""

from __future__ import annotations

import ast
from dataclasses import dataclass


class EditError(Exception):
    """An edit does not apply exactly once."""


@dataclass(frozen=True)
class Edit:
    """Steps that turn the solution's source into a wrong program."""

    steps: tuple[tuple[str, str, str], ...]

    def then(self, old: str, new: str) -> Edit:
        """A further replacement."""
        return Edit((*self.steps, ("text", old, new)))

    def then_function(self, name: str, source: str) -> Edit:
        """A further replacement of a whole top-level function or class."""
        return Edit((*self.steps, ("function", name, source)))

    def apply(self, source: str) -> str:
        """The wrong program. Raises EditError unless every step applies exactly once."""
        for kind, old, new in self.steps:
            source = _replace_definition(source, old, new) if kind == "function" else _replace_text(source, old, new)
        try:
            ast.parse(source)
        except SyntaxError as error:
            raise EditError(f"the edited program is no Python: {error}") from None
        return source


class _Edits:
    def __call__(self, old: str, new: str) -> Edit:
        """Replaces a text that occurs exactly once in the solution.

        >>> no_rescale = edit("total = total * factor + part", "total = total + part")
        """
        return Edit((("text", old, new),))

    def function(self, name: str, source: str) -> Edit:
        """Replaces a whole top-level function or class by another definition of the same name."""
        return Edit((("function", name, source),))


edit = _Edits()


def _replace_text(source: str, old: str, new: str) -> str:
    count = source.count(old)
    if count != 1:
        raise EditError(f"{old!r} occurs {count} times in the solution, not once")
    return source.replace(old, new)


def _replace_definition(source: str, name: str, new: str) -> str:
    found = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == name
    ]
    if len(found) != 1:
        raise EditError(f"{name} is defined {len(found)} times at the top level of the solution, not once")
    node = found[0]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: first - 1], new.strip("\n") + "\n", *lines[node.end_lineno :]])
