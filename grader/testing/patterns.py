"""What wrong elements have in common: the place they are in, and what the whole answer resembles instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


def where_wrong(wrong: Array) -> str:
    """The rows, columns or blocks that hold all wrong elements, in words; "" if they are all over the place.

    >>> where_wrong(mask)
    'all 24 wrong elements are in columns 120..127 (the last 8)'
    """
    import numpy as np

    count = int(wrong.sum())
    if wrong.ndim == 0 or count <= 1 or count == wrong.size:
        return ""
    places = []
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        hit = np.flatnonzero(wrong.any(axis=others))
        length = wrong.shape[axis]
        if len(hit) == length or len(hit) > 0.75 * length:
            continue
        places.append(f"{_axis_name(axis, wrong.ndim, len(hit))} {_run(hit, length)}")
    if not places:
        return _triangle(wrong)
    text = f"all {count:,} wrong elements are in {' and '.join(places)}"
    inside = _inside(wrong)
    return f"{text}, every element there" if inside and count > 2 else text


def _axis_name(axis: int, ndim: int, count: int) -> str:
    plural = "s" if count > 1 else ""
    if ndim == 1:
        return "positions" if plural else "position"
    if axis == ndim - 1:
        return f"column{plural}"
    if axis == ndim - 2:
        return f"row{plural}"
    return f"index{'es' if plural else ''} (axis {axis})"


def _run(hit: Array, length: int) -> str:
    first, last, count = int(hit[0]), int(hit[-1]), len(hit)
    if count == 1:
        if length > 1 and first == length - 1:
            return f"{first} (the last)"
        return str(first)
    if last - first + 1 == count:
        text = f"{first}..{last}"
        if last == length - 1:
            return f"{text} (the last {count})"
        return f"{text} (the first {count})" if first == 0 else text
    step = int(hit[1] - hit[0])
    if count > 2 and ((hit[1:] - hit[:-1]) == step).all():
        return f"{first}, {first + step}, ..., {last} (every {_ordinal(step)})"
    listed = ", ".join(str(int(i)) for i in hit[:6])
    return listed if count <= 6 else f"{listed}, ... {last}"


def _ordinal(n: int) -> str:
    return {2: "second", 3: "third", 4: "fourth"}.get(n, f"{n}th")


def _inside(wrong: Array) -> bool:
    """Whether the wrong elements fill the whole box of the rows and columns they are in."""
    import numpy as np

    box = wrong
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        box = np.take(box, np.flatnonzero(wrong.any(axis=others)), axis=axis)
    return bool(box.all())


def _triangle(wrong: Array) -> str:
    import numpy as np

    if wrong.ndim < 2 or min(wrong.shape[-2:]) < 3:
        return ""
    seen = wrong.reshape(-1, *wrong.shape[-2:]).any(axis=0)
    if not np.tril(seen).any():
        return "all wrong elements are above the diagonal"
    if not np.triu(seen).any():
        return "all wrong elements are below the diagonal"
    return ""


def resemblance(values: Array, right: Array, wrong: Array) -> str:
    """What a wrong answer is, if it is something simple: zeros, a multiple of the right one, its transpose, ..."""
    import numpy as np

    if values.size < 2 or int(wrong.sum()) < 2 or values.dtype.kind not in "fc" or right.dtype.kind not in "fc":
        return ""
    finite = np.isfinite(right) & np.isfinite(values)
    if not finite.any():
        return ""
    v, r = values[finite], right[finite]
    if not (v != 0).any():
        return "got is zero everywhere"
    scale = float(np.abs(r).max())
    slack = 1e-3 * scale
    if len(v) > 1 and (np.abs(v - v.flat[0]) <= 1e-6 * np.abs(v.flat[0])).all() and np.ptp(np.abs(r)) > slack:
        return "got is the same number everywhere"
    if values.ndim >= 2:
        for axis, name in ((-1, "columns"), (-2, "rows")):
            if np.allclose(np.flip(values, axis), right, rtol=1e-3, atol=slack, equal_nan=True):
                return f"got is the expected result with its {name} in reverse order"
        swapped = np.swapaxes(values, -1, -2)
        if swapped.shape == right.shape and np.allclose(swapped, right, rtol=1e-3, atol=slack, equal_nan=True):
            return "got is the expected result transposed"
    with np.errstate(all="ignore"):
        weight = float((np.abs(r) ** 2).sum())
        factor = (np.conj(r) * v).sum() / weight if weight else np.nan
        if np.isfinite(factor) and abs(factor) > 1e-6 and len(r) >= 3:
            ratio = float(np.abs(v - factor * r).max())
            if ratio <= 1e-3 * scale * abs(factor) and abs(factor - 1) > 0.01:
                if values.dtype.kind == "f" and abs(factor + 1) < 1e-3:
                    return "got is the negative of the expected result"
                return f"got is {factor:.4g} times the expected result everywhere"
        shift = (v - r).mean()
        if len(r) >= 3 and abs(shift) > 1e-2 * scale and float(np.abs(v - r - shift).max()) <= 1e-3 * abs(shift):
            return f"got is the expected result {'plus' if shift.real > 0 else 'minus'} {abs(shift):.4g} everywhere"
    return ""
