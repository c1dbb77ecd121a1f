"""What both ends agree on: codes of values, limits, frames, and the libraries whose values are known."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import msgpack

LARGEST_FRAME = 2 << 30
"""Bytes; a worker that sends more has returned something absurd."""

LARGEST_INT = 3500
"""Hexadecimal digits."""

TUPLE, SET, FROZENSET, COMPLEX, BIGINT, ARRAY, SCALAR, TENSOR, RECORD, NAMEDTUPLE = range(1, 11)
OBJECT, NUMPY_RNG, TORCH_RNG, DTYPE, NUMPY_DTYPE, FRACTION, DECIMAL, PATH, SLICE, ELLIPSIS = range(11, 21)
RANGE, FOREIGN, OUTPUT, DEVICE, EXCEPTION, OBJECT_ARRAY, DEQUE = range(21, 28)

# Bound now: a submission may replace attributes of this module in the worker. The classes, not `packb` and `unpackb`:
# their wrappers cost more than the packing of a small message.
PlainPacker = msgpack.Packer
unpack_plain = msgpack.unpackb


class WireError(Exception):
    """A value that cannot cross, or bytes that are no value."""


class Side(Protocol):
    """What differs between the two ends: objects that stay at home and are only named on the wire."""

    def export(self, value: Any) -> tuple[int, Any]:
        """(extension code, plain payload) for an object that is not plain data."""
        ...

    def resolve(self, payload: list[Any]) -> Any:
        """The object, or a proxy of it, for the payload of an OBJECT."""
        ...

    def record(self, type_name: str, fields: dict[str, Any]) -> Any:
        """A dataclass instance from its fields."""
        ...

    def foreign(self, type_name: str, why: str) -> Any:
        """What stands for something that is not handed over as a value, such as a subclass of Tensor."""
        ...


_libraries: dict[str, Any] = {}


def numpy_if_imported() -> Any:
    """numpy, if anybody has imported it: a value cannot be an array otherwise."""
    found = _libraries.get("numpy")
    if found is None and "numpy" in sys.modules:
        found = _libraries["numpy"] = sys.modules["numpy"]
    return found


def torch_if_imported() -> Any:
    """torch, if it was imported *completely* (a submission may be forbidden to use it)."""
    found = _libraries.get("torch")
    if found is None:
        module = sys.modules.get("torch")
        if module is not None and hasattr(module, "Tensor") and hasattr(module, "Generator"):
            found = _libraries["torch"] = module
    return found


def remember_libraries() -> None:
    """Keep hold of numpy and torch as they are now, before a submission can touch sys.modules."""
    numpy_if_imported()
    torch_if_imported()


def frame(tree: bytes, buffers: list[bytes]) -> bytes:
    """One message as bytes."""
    result: bytes = PlainPacker(use_bin_type=True).pack([tree, buffers])
    return result


def unframe(content: bytes) -> tuple[bytes, list[bytes]]:
    """Tree and buffers of a message."""
    tree, buffers = unpack_plain(content, raw=False)
    return tree, buffers
