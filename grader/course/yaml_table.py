"""Reading YAML whose every key is checked: one clear error that names the file and the place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from grader.course.errors import CourseError, near

try:
    from yaml import CSafeLoader as FastLoader
except ImportError:  # a PyYAML built without libyaml: ten times slower, and right
    from yaml import SafeLoader as FastLoader  # type: ignore[assignment]

SLUG = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class _Loader(FastLoader):
    """SafeLoader, except that a key written twice is an error instead of the first one being lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node)
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", key_node.start_mark)
                seen.add(key)
        return mapping


class Table:
    """A mapping of a YAML file and where it stands. Every key that is not asked for is an error."""

    def __init__(self, file: Path, place: str, values: object) -> None:
        self.file = file
        self.place = place
        if not isinstance(values, dict):
            raise self.fault(f"a table of keys and values is expected, not {_said(values)}")
        self._values: dict[Any, Any] = values

    def fault(self, what: str) -> CourseError:
        """The error to raise about this place."""
        return CourseError(": ".join(piece for piece in (str(self.file), self.place, what) if piece))

    def only(self, required: Collection[str], optional: Collection[str] = ()) -> None:
        """Every required key is there and no other but the optional ones."""
        known = [*required, *optional]
        for key in self._values:
            if key not in known:
                raise self.fault(f"unknown key {key!r}{near(str(key), known) or '; the keys are ' + ', '.join(known)}")
        if missing := [key for key in required if key not in self._values]:
            raise self.fault(f"{', '.join(missing)} missing")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> list[str]:
        """Its keys, in the file's order, all strings."""
        for key in self._values:
            if not isinstance(key, str):
                raise self.fault(f"the key {_said(key)} is no string; write it in quotes")
        return list(self._values)

    def text(self, key: str) -> str:
        """A string that is not empty; folded lines are joined."""
        value = self._values[key]
        if not isinstance(value, str):
            raise self.fault(f"{key} must be a string, not {_said(value)}{_quote_it(value)}")
        if not value.strip():
            raise self.fault(f"{key} is empty")
        return value.strip()

    def slug(self, key: str) -> str:
        """A name for files and for typing."""
        value = self.text(key)
        if not SLUG.fullmatch(value):
            raise self.fault(f"{key} {value!r} must be lower case words joined by underscores")
        return value

    def one_of(self, key: str, allowed: Collection[str]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise self.fault(f"{key} {value!r} must be one of {', '.join(allowed)}")
        return value

    def whole(self, key: str, least: int = 0) -> int:
        value = self._values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(f"{key} must be a whole number, not {_said(value)}")
        if value < least:
            raise self.fault(f"{key} is {value}, at least {least} expected")
        return value

    def number(self, key: str) -> float:
        """A number above 0."""
        value = self._values[key]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fault(f"{key} must be a number, not {_said(value)}")
        if not 0 < value < float("inf"):
            raise self.fault(f"{key} is {value}, more than 0 expected")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._values[key]
        if not isinstance(value, list):
            raise self.fault(f"{key} must be a list of strings, not {_said(value)}")
        for item in value:
            if not isinstance(item, str):
                raise self.fault(f"{key} holds {_said(item)}, a string is expected{_quote_it(item)}")
            if not item.strip():
                raise self.fault(f"{key} holds an empty string")
        return tuple(item.strip() for item in value)

    def table(self, key: str) -> Table:
        """The mapping under a key."""
        return Table(self.file, self._inside(key), self._values[key])

    def tables(self, key: str, named_by: str) -> Iterator[Table]:
        """The mappings of the list under a key; each is called by the value of `named_by` in messages."""
        value = self._values[key]
        if not isinstance(value, list):
            raise self.fault(f"{key} must be a list, not {_said(value)}")
        for index, item in enumerate(value, 1):
            name = item.get(named_by, f"number {index}") if isinstance(item, dict) else f"number {index}"
            yield Table(self.file, self._inside(f"{key.removesuffix('s')} {name}"), item)

    def _inside(self, place: str) -> str:
        return f"{self.place}, {place}" if self.place else place


def read(file: Path) -> Table:
    """The mapping that a YAML file holds."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{file}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{file}: it can't be read: {error}") from None
    try:
        values = yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f": line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise CourseError(f"{file}{place}: this is not valid YAML: {problem}") from None
    return Table(file, "", values)


def _said(value: object) -> str:
    kinds = {dict: "a table", list: "a list", type(None): "nothing"}
    return kinds.get(type(value)) or repr(value)


def _quote_it(value: object) -> str:
    return f'; write "{value}" in quotes' if isinstance(value, int | float) and not isinstance(value, bool) else ""
