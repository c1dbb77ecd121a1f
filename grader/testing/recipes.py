"""Recipes: the Python expression that a drawn tensor or array was made by.

A value is always *made* from its recipe, so the text that a learner pastes yields the very same values.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from grader.testing.kinds import is_array, is_tensor

_recipes: dict[int, tuple[weakref.ref[Any], str]] = {}


def make(code: str) -> Any:
    """Evaluate a recipe and remember what it made.

    >>> make("torch.randn(2, 3, generator=torch.Generator().manual_seed(7)) * 8")
    """
    names = {}
    if "torch." in code:
        import torch

        names["torch"] = torch
    if "np." in code:
        import numpy

        names["np"] = numpy
    value = eval(code, names)
    key = id(value)
    _recipes[key] = weakref.ref(value, lambda _: _recipes.pop(key, None)), code
    return value


def recipe_of(value: object) -> str | None:
    """The recipe of a value that `make` made, even if it was changed since; None for other values."""
    entry = _recipes.get(id(value))
    return entry[1] if entry is not None and entry[0]() is value else None


def still_made_by(value: Any, code: str) -> bool:
    """Whether `code` yields what `value` holds now, bit for bit and stride for stride."""
    other = make(code)
    if is_tensor(value):
        torch = sys.modules["torch"]
        if value.stride() != other.stride() or value.storage_offset() != other.storage_offset():
            return False
        return bool(torch.equal(_bytes(value), _bytes(other)))
    return bool(value.strides == other.strides and value.tobytes() == other.tobytes())


def _bytes(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    # Not contiguous(): it keeps the odd stride that an axis of length 1 may have, which view() refuses.
    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


@dataclass(frozen=True)
class _Made:
    code: str


@dataclass(frozen=True)
class _Copied:
    value: Any


def freeze(value: Any) -> Any:
    """A copy of drawn arguments that nothing can change; `thaw` makes fresh values of it, any number of times."""
    if is_tensor(value) or is_array(value):
        code = recipe_of(value)
        return _Made(code) if code is not None else _Copied(_copy(value))
    if type(value) in (list, tuple):
        return type(value)([freeze(item) for item in value])
    if type(value) is dict:
        return {key: freeze(item) for key, item in value.items()}
    if type(value) in (set, bytearray):
        return type(value)(value)
    return value


def thaw(frozen: Any) -> Any:
    """Fresh values of frozen ones."""
    if type(frozen) is _Made:
        return make(frozen.code)
    if type(frozen) is _Copied:
        return _copy(frozen.value)
    if type(frozen) in (list, tuple):
        return type(frozen)([thaw(item) for item in frozen])
    if type(frozen) is dict:
        return {key: thaw(item) for key, item in frozen.items()}
    if type(frozen) in (set, bytearray):
        return type(frozen)(frozen)
    return frozen


def _copy(value: Any) -> Any:
    if is_tensor(value):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value.copy(order="K")


def fingerprint(frozen: Any) -> int:
    """A number that depends on the drawn values alone: seeds what a test draws for itself in this example."""
    return crc32(_text(frozen).encode("utf-8", "surrogatepass"))


def _text(frozen: Any) -> str:
    if type(frozen) is _Made:
        return frozen.code
    if type(frozen) is _Copied:
        plain = frozen.value
        if is_tensor(plain):
            plain = _bytes(plain).numpy()
        return f"{frozen.value.shape} {crc32(plain.tobytes())}"
    if type(frozen) in (list, tuple):
        return f"({','.join(map(_text, frozen))})"
    if type(frozen) is dict:
        return f"{{{','.join(f'{key!r}:{_text(item)}' for key, item in frozen.items())}}}"
    if type(frozen) in (set, frozenset):
        return str(sorted(map(repr, frozen)))
    if type(frozen) in (bool, int, float, complex, str, bytes, type(None)):
        return repr(frozen)
    # An address in a repr would differ from run to run.
    return type(frozen).__qualname__


def size(frozen: Any) -> int:
    """How much there is to read in an example: elements of tensors and containers, characters, digits of numbers."""
    if type(frozen) is _Made:
        return int(_elements(make(frozen.code)))
    if type(frozen) is _Copied:
        return int(_elements(frozen.value))
    if type(frozen) is dict:
        frozen = list(frozen.values())
    if isinstance(frozen, Sequence) and not isinstance(frozen, (str, bytes)):
        return 1 + sum(map(size, frozen))
    return len(repr(frozen)) if isinstance(frozen, (int, float, str, bytes)) else 1


def _elements(value: Any) -> int:
    return value.numel() if is_tensor(value) else value.size
