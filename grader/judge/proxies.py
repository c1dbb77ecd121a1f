"""What tests hold in place of the submission's functions and objects, and what the worker may ask of the judge's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from grader.judge.errors import NoSuchAttribute, SubmissionError
from grader.testing.foreign import Foreign
from grader.worker.wire import OBJECT, RECORD, Record

if TYPE_CHECKING:
    from grader.judge.session import Session


ANY = "*"
"""Stands for every operator, in JudgeSide.operators."""


class Handle:
    """An object that lives in the worker. Attributes, methods, operators, [], iteration, `with`, calls go there."""

    __slots__ = ("__weakref__", "_methods", "_number", "_payload", "_session")
    __array_ufunc__ = None
    """`np.float64(2) * handle` is for the submission's own operator, not for numpy."""

    def __init__(self, session: Session, payload: list[Any]) -> None:
        self._session = session
        self._payload = payload
        self._number = payload[1]
        self._methods = frozenset(payload[3])

    @property
    def __record_name__(self) -> str:
        """What messages call it."""
        return self.type_name

    @property
    def type_name(self) -> str:
        """The name of its class in the submission."""
        return str(self._payload[2])

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            return RemoteFunction(self._session, self, name)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"a {self.type_name} has no {name}")
        try:
            return self._session.attribute_of(self, name)
        except SubmissionError as error:
            if error.kind != "AttributeError":
                raise
            raise NoSuchAttribute(error.kinds, error.message, error.traceback) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Handle.__slots__:
            object.__setattr__(self, name, value)
        else:
            self._session.set_attribute(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(self, "__call__", args, kwargs)

    def __iter__(self) -> Iterator[Any]:
        if "__next__" in self._methods:
            return self
        iterator: Iterator[Any] = self._session.call(self, "__iter__", (), {})
        return iterator

    def __next__(self) -> Any:
        going, value = self._session.advance(self)
        if not going:
            raise StopIteration
        return value

    def __enter__(self) -> Any:
        return self._session.call(self, "__enter__", (), {})

    def __exit__(self, *details: Any) -> Any:
        return self._session.call(self, "__exit__", (None, None, None), {})

    def __len__(self) -> int:
        if "__len__" not in self._methods:
            raise TypeError(f"a {self.type_name} has no len()")
        self._session.side.allow_operator(self.type_name, "__len__")
        return operator.index(self._session.call(self, "__len__", (), {}))

    def __bool__(self) -> bool:
        for name in ("__bool__", "__len__"):
            if name in self._methods:
                self._session.side.allow_operator(self.type_name, name)
                return bool(self._session.call(self, name, (), {}))
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other._session is self._session and other._number == self._number

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<{self.type_name} of the submission>"


def _forward(name: str) -> Callable[..., Any]:
    def method(self: Handle, *args: Any) -> Any:
        self._session.side.allow_operator(self.type_name, name)
        return self._session.call(self, name, args, {})

    method.__name__ = name
    return method


_FORWARDED = (
    "getitem setitem delitem contains add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow "
    "matmul rmatmul neg pos abs lt le gt ge float int complex round invert and or xor reversed"
)
for _name in _FORWARDED.split():
    setattr(Handle, f"__{_name}__", _forward(f"__{_name}__"))


class RemoteFunction:
    """A function of the submission, or a method of one of its objects."""

    def __init__(self, session: Session, target: Any, name: str) -> None:
        self._session = session
        self._target = target
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(self._target, self.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return RemoteFunction(self._session, self._target, f"{self.__name__}.{name}")

    def __rendered__(self) -> str:
        """As a call that a learner pastes has it."""
        return self.__name__

    def __repr__(self) -> str:
        return f"<{self.__name__} of the submission>"


class JudgeSide:
    """The judge's end of wire.Side: it hands out functions and objects of the tests, never their insides."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._objects: dict[int, Any] = {}
        self._payloads: dict[int, tuple[Any, list[Any]]] = {}
        self.parameter_names: dict[str, list[str]] = {}
        self.operators: dict[str, frozenset[str]] | None = None
        """The operators of each class that the exercise describes (`ANY` if it has a base class that may bring some);
        None if any class may have any."""

    def allow_operator(self, type_name: str, name: str) -> None:
        """Refuses operators that the exercise does not give to this class.

        They run in the worker. `abs(got - expected) <= 1e-9` would otherwise ask the submission's own object whether it
        is right, and tell it what was expected.
        """
        if self.operators is None:
            return
        known = self.operators.get(type_name, frozenset())
        if name not in known and ANY not in known:
            raise TypeError(f"a {type_name} of the submission does not stand for a plain value: {name}")

    def export(self, value: Any) -> tuple[int, Any]:
        """A handle goes back as itself, a record by value, a function or a test's object as a number."""
        if isinstance(value, Handle):
            return OBJECT, value._payload
        if isinstance(value, Record):
            fields = value.__record_fields__
            return RECORD, [value.__record_name__, list(fields), list(fields.values())]
        if isinstance(value, RemoteFunction):
            return self.export(self._session.attribute_of(value._target, value.__name__))
        known = self._payloads.get(id(value))
        if known is None:
            number = len(self._objects)
            self._objects[number] = value
            payload = ["judge", number, _kind_of(value), _public_methods(value)]
            # The value is kept beside its payload, so that its id is not given to another object.
            known = self._payloads[id(value)] = (value, payload)
        return OBJECT, known[1]

    def resolve(self, payload: list[Any]) -> Any:
        """A handle of the worker's object, or the judge's own object back."""
        if payload[0] == "judge":
            return self._objects[payload[1]]
        return Handle(self._session, [str(payload[0]), int(payload[1]), str(payload[2]), [str(n) for n in payload[3]]])

    def record(self, type_name: str, fields: dict[str, Any]) -> Record:
        """A dataclass instance of the submission's."""
        return Record(str(type_name), fields, self._session)

    def foreign(self, type_name: str, why: str) -> Foreign:
        """What stands for a value that does not cross."""
        kind = str(why).removeprefix("a subclass of ")
        return Foreign(str(type_name), str(why), f"a plain {kind}" if str(why).startswith("a subclass") else "")

    def invoke(self, number: int, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs what the worker asks for, if it was handed out."""
        target = self._objects[number]
        if method == "__next__":
            try:
                return True, next(target)
            except StopIteration:
                return False, None
        if method == "__call__":
            if not callable(target):
                raise TypeError(f"{type(target).__name__} cannot be called")
            return target(*args, **kwargs)
        if method not in _public_methods(target):
            raise AttributeError(method)
        return getattr(target, method)(*args, **kwargs)


def _kind_of(value: Any) -> str:
    if isinstance(value, Iterator):
        return "iterator"
    return getattr(value, "__name__", None) or type(value).__name__


def _public_methods(value: Any) -> list[str]:
    if (
        callable(value)
        and not hasattr(type(value), "__wrapped_object__")
        and type(value).__name__ in ("function", "method")
    ):
        return []
    return sorted(
        name
        for name in dir(type(value))
        if (not name.startswith("_") or name in ("__len__", "__getitem__"))
        and callable(getattr(type(value), name, None))
    )
