"""Whether two programs answered alike: the measure by which a mistake is recognised."""

from __future__ import annotations

import sys
from typing import Any

CLOSER = 0.05
"""A mistake is recognised if it is this much closer to the submission than the right answer is."""


def alike(seen: Any, other: Any, right: Any) -> bool:
    """Whether `other` is what `seen` is, as far as both differ from `right`.

    Numbers may differ by rounding, and by a twentieth of what separates `seen` from `right`; all else must be equal.
    """
    if type(seen) is not type(other):
        return _is_number(seen) and _is_number(other) and _numbers(seen, other, right)
    same_kind = type(right) is type(seen)
    if isinstance(seen, list | tuple):
        if len(seen) != len(other):
            return False
        # A mistake's check ends at its first failure, so the right program may have answered more.
        rights = list(right) if same_kind and len(right) >= len(seen) else [None] * len(seen)
        return all(alike(a, b, c) for a, b, c in zip(seen, other, rights, strict=False))
    if isinstance(seen, dict):
        if seen.keys() != other.keys():
            return False
        return all(alike(seen[key], other[key], right.get(key) if same_kind else None) for key in seen)
    fields = getattr(seen, "__record_fields__", None)
    if isinstance(fields, dict):
        return alike(fields, other.__record_fields__, right.__record_fields__ if same_kind else None)
    if isinstance(seen, Exception):
        return getattr(seen, "kinds", None) == getattr(other, "kinds", None)
    if hasattr(seen, "type_name"):
        return bool(seen.type_name == other.type_name)
    if _is_number(seen) or _is_array(seen):
        return _numbers(seen, other, right)
    return bool(seen == other)


def _is_number(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, int | float | complex) or (numpy is not None and isinstance(value, numpy.number))


def _is_array(value: Any) -> bool:
    return type(value).__name__ in ("Tensor", "Parameter", "ndarray")


def _numbers(seen: Any, other: Any, right: Any) -> bool:
    import numpy

    first, eps = _as_array(seen)
    second, _ = _as_array(other)
    if first.shape != second.shape:
        return False
    if first.dtype.kind not in "fcbiu":
        return bool(numpy.array_equal(first, second))
    if first.dtype.kind in "biu" and second.dtype.kind in "biu":
        return bool(numpy.array_equal(first, second))
    with numpy.errstate(all="ignore"):
        if not numpy.array_equal(numpy.isnan(first), numpy.isnan(second)):
            return False
        infinite = numpy.isinf(first) | numpy.isinf(second)
        if not numpy.array_equal(first[infinite], second[infinite]):
            return False
        finite = numpy.isfinite(first)
        if not finite.any():
            return True
        allowed = numpy.full(
            first.shape, max(1e-9, 64 * eps if eps < 1e-5 else 4 * eps) * numpy.abs(first[finite]).max()
        )
        if right is not None and (_is_number(right) or _is_array(right)):
            third, _ = _as_array(right)
            if third.shape == first.shape and third.dtype.kind in "fcbiu":
                gap = numpy.abs(first - third)
                allowed = numpy.where(numpy.isfinite(gap), numpy.maximum(allowed, CLOSER * gap), allowed)
        return bool((numpy.abs(first - second)[finite] <= allowed[finite]).all())


def _as_array(value: Any) -> tuple[Any, float]:
    """(float64, complex128, integer or bool array; unit roundoff of the value's own dtype)."""
    import numpy

    if type(value).__name__ in ("Tensor", "Parameter"):
        torch = sys.modules["torch"]
        value = value.detach()
        eps = torch.finfo(value.dtype).eps if value.dtype.is_floating_point or value.dtype.is_complex else 0.0
        if value.dtype.is_floating_point:
            value = value.to(torch.float64)
        elif value.dtype.is_complex:
            value = value.to(torch.complex128)
        return value.numpy(), eps
    array = numpy.asarray(value)
    eps = float(numpy.finfo(array.dtype).eps) if array.dtype.kind in "fc" else 0.0
    if array.dtype.kind == "f":
        array = array.astype(numpy.float64)
    return array, eps
