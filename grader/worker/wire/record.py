"""A dataclass instance that has crossed by value."""

from __future__ import annotations

from typing import Any


class Record:
    """A dataclass instance of the submission, by value: its fields are attributes."""

    __slots__ = ("_fields", "_name", "_owner")

    def __init__(self, name: str, fields: dict[str, Any], owner: Any = None) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_owner", owner)

    @property
    def __record_name__(self) -> str:
        """The name of its class."""
        name: str = self._name
        return name

    @property
    def __record_fields__(self) -> dict[str, Any]:
        """Its fields in order."""
        fields: dict[str, Any] = self._fields
        return fields

    def __getattr__(self, name: str) -> Any:
        if name in Record.__slots__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        if name in self._fields:
            return self._fields[name]
        if self._owner is None:
            raise AttributeError(name)
        return self._owner.attribute_of(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._name} is a copy of the submission's object; use replace({name}=...)")

    def replace(self, **changes: Any) -> Record:
        """A copy with some fields changed."""
        unknown = changes.keys() - self.__record_fields__.keys()
        if unknown:
            raise TypeError(f"{self._name} has no field {', '.join(sorted(unknown))}")
        return Record(self._name, {**self._fields, **changes}, self._owner)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or self._name != other._name:
            return NotImplemented
        return bool(self.__record_fields__ == other.__record_fields__)

    def __hash__(self) -> int:
        return hash((self._name, tuple(self.__record_fields__.items())))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__record_fields__.items())
        return f"{self._name}({inside})"
