"""What kind of value this is, decided by exact type: no method of a value from outside is ever called.

torch and numpy are looked up in sys.modules: while they are not imported, no value of theirs exists.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from grader.testing.foreign import Foreign

if TYPE_CHECKING:
    import numpy as np
    import torch


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether `value` is a torch.Tensor or Parameter, and not a subclass."""
    torch = sys.modules.get("torch")
    return torch is not None and (type(value) is torch.Tensor or type(value) is torch.nn.Parameter)


def is_array(value: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Whether `value` is a numpy array, and not a subclass."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def is_numpy_scalar(value: object) -> TypeGuard[np.generic]:
    """Whether `value` is a scalar of numpy's own, such as np.float32(0.5)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic) and type(value).__module__ == "numpy"


def record_fields(value: object) -> list[tuple[str, Any]] | None:
    """Fields of a record (a dataclass of the stub, carried by value) in order; None for anything else."""
    # Asked of the type: the attributes of a handle live in the worker.
    if hasattr(type(value), "__record_fields__"):
        fields: Mapping[str, Any] = value.__record_fields__  # type: ignore[attr-defined]
        return list(fields.items())
    if isinstance(value, Foreign):
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def record_name(value: object) -> str:
    """The class name of a record or of an object that stays in the worker, as the stub has it; else the type's."""
    return str(getattr(value, "__record_name__", type(value).__name__))


def dtype_name(dtype: object) -> str:
    """'float16' for torch.float16, np.float16 and np.dtype('float16') alike."""
    return dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")


def kind(value: object) -> str:
    """The kind of a value in words: "a tensor", "a numpy array", "an int", "a list", "None", "a State"."""
    if value is None:
        return "None"
    if is_tensor(value):
        return "a tensor"
    if is_array(value):
        return "a numpy array"
    if isinstance(value, Foreign):
        return value.sentence().removeprefix("returned ")
    name = record_name(value)
    if is_numpy_scalar(value):
        name = f"np.{name}"
    return f"an {name}" if name[:1].lower() in tuple("aeio") else f"a {name}"


def numeric_tower(value: object) -> str:
    """'bool', 'int', 'float' or 'complex' for Python's and numpy's numbers; '' for anything else."""
    if type(value) in (bool, int, float, complex):
        return type(value).__name__
    if is_numpy_scalar(value):
        return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}.get(value.dtype.kind, "")
    return ""
