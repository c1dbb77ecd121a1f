"""Whether numbers are close enough, and if not, which is worst, by how much, and what all wrong ones have in common."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from grader.testing.exact import equal
from grader.testing.failure import CheckFailed
from grader.testing.foreign import Foreign
from grader.testing.kinds import (
    dtype_name,
    is_array,
    is_numpy_scalar,
    is_tensor,
    kind,
    numeric_tower,
    record_fields,
    record_name,
)
from grader.testing.patterns import resemblance, where_wrong
from grader.testing.render import number, numbers_apart, short, short_apart

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

# About four times the unit roundoff for the narrow types, where one rounding of the result is all that honest code
# must lose; more room for the wide ones, where the order of a sum matters too.
TOLERANCE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3fn": 0.25,
    "float8_e4m3fnuz": 0.25,
    "float8_e5m2": 0.5,
    "float8_e5m2fnuz": 0.5,
}
PLAIN_TOLERANCE = 1e-6


def close(
    got: Any,
    expected: Any,
    rtol: float | None = None,
    *,
    atol: float = 0.0,
    dtype: Any = None,
    honest: Any = None,
    what: str = "",
    by: str | None = None,
) -> None:
    """Fail unless `got` is what was expected: kind, shape, dtype, where it is finite, and then every value.

    `expected` is a float64 tensor or array, a number, or a nested list, tuple or dict of them; numbers in plain lists
    also stand for a tensor or array of that shape. `got` must have the dtype `dtype` if that is given, else any float
    dtype where expected is float64, else expected's own.

    Values pass where |got - expected| <= rtol * scale + atol. The scale of an element is
    - by="row" (the default for tensors and arrays): |expected|, or the rms of its row (last axis) if larger;
    - by="element" (the default for numbers in lists, tuples and dicts): |expected|;
    - by="tensor": the largest |expected| of all.
    rtol is by default that of got's dtype: float64 1e-9, float32 1e-5, float16 2e-3, bfloat16 1.6e-2; numbers 1e-6.

    `honest` is the same computation done decently in got's dtype; a row may then err up to twice as much as it does.
    NaN and infinities must stand exactly where expected has them. `what` names the thing in the message.

    >>> close(submission.softmax(x), x.double().softmax(-1))
    >>> close(submission.loss(x), 0.25)
    >>> close(lse, [1.31, float("-inf")], rtol=1e-2, what="lse")
    """
    __tracebackhide__ = True
    if by not in (None, "row", "element", "tensor"):
        raise ValueError(f'close(by={by!r}): by is "row", "element" or "tensor"')
    _Comparison(got, expected, rtol, atol, dtype, by).run(got, expected, honest, what)


@dataclass
class _Comparison:
    """One call of `close`: the whole answer, for the message, and the tolerance."""

    whole_got: Any
    whole_expected: Any
    rtol: float | None
    atol: float
    dtype: Any
    by: str | None

    def fail(self, aspect: str, message: str, what: str, where: str = "") -> NoReturn:
        got, expected = short_apart(self.whole_got, self.whole_expected)
        raise CheckFailed(
            f"{what}: {message}" if what else message,
            got=got,
            expected=expected,
            where=where,
            aspect=f"{aspect} {what}".strip(),
            subject=self.whole_got,
        )

    def run(self, got: Any, expected: Any, honest: Any, what: str) -> None:
        if isinstance(got, Foreign):
            self.fail("kind", got.sentence(), what)
        if is_tensor(expected) or is_array(expected):
            self.arrays(got, expected, honest, what)
        elif numeric_tower(expected) in ("int", "float", "complex"):
            self.scalar(got, expected, honest, what)
        elif type(expected) in (list, tuple) and _only_numbers(expected) and self.stands_for_array(got):
            self.arrays(got, _as_array(expected, what), honest, what, listed=True)
        elif type(expected) in (list, tuple):
            self.sequence(got, expected, honest, what)
        elif isinstance(expected, Mapping):
            self.mapping(got, expected, honest, what)
        elif record_fields(expected) is not None:
            self.record(got, expected, honest, what)
        else:
            equal(got, expected, what)

    def stands_for_array(self, got: Any) -> bool:
        if is_tensor(got) or is_array(got):
            return True
        # Plain numbers in a list are one row only if the test says so: they are often unrelated quantities.
        return self.by in ("row", "tensor") and type(got) in (list, tuple) and _only_numbers(got)

    # ---- containers

    def sequence(self, got: Any, expected: Any, honest: Any, what: str) -> None:
        if type(got) is not type(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)} of {len(expected)}", what)
        if len(got) != len(expected):
            self.fail("length", f"{len(got)} items, expected {len(expected)}", what)
        for i, (item, right) in enumerate(zip(got, expected, strict=True)):
            self.run(item, right, None if honest is None else honest[i], f"{what}[{i}]" if what else f"item {i}")

    def mapping(self, got: Any, expected: Mapping[Any, Any], honest: Any, what: str) -> None:
        if type(got) is not dict:
            self.fail("kind", f"{kind(got)}, expected a dict", what)
        missing = [key for key in expected if key not in got]
        extra = [key for key in got if key not in expected]
        if missing or extra:
            parts = [f"no key {', '.join(short(key) for key in missing)}"] if missing else []
            parts += [f"unexpected key {', '.join(short(key) for key in extra)}"] if extra else []
            self.fail("keys", "; ".join(parts), what)
        for key, right in expected.items():
            name = f"{what}[{short(key)}]" if what else f"item {short(key)}"
            self.run(got[key], right, None if honest is None else honest[key], name)

    def record(self, got: Any, expected: Any, honest: Any, what: str) -> None:
        fields, right = record_fields(got), record_fields(expected) or []
        if fields is None or record_name(got) != record_name(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)}", what)
        values = dict(fields)
        for name, value in right:
            if name not in values:
                self.fail("kind", f"{kind(got)} without the field {name}", what)
            self.run(
                values[name], value, getattr(honest, name) if honest is not None else None, f"{what}.{name}".lstrip(".")
            )

    # ---- numbers

    def scalar(self, got: Any, expected: Any, honest: Any, what: str) -> None:
        sort, wanted = numeric_tower(got), numeric_tower(expected)
        if sort not in ("int", "float", "complex") or (sort == "complex" and wanted != "complex"):
            extra = f" of shape {tuple(got.shape)}" if is_tensor(got) or is_array(got) else ""
            article = "a complex" if wanted == "complex" else "a float" if wanted == "float" else "a number"
            self.fail("kind", f"{kind(got)}{extra}, expected {article}", what)
        if self.dtype is not None and (not is_numpy_scalar(got) or got.dtype.name != dtype_name(self.dtype)):
            self.fail("dtype", f"{kind(got)}, expected np.{dtype_name(self.dtype)}", what)
        default = PLAIN_TOLERANCE
        if is_numpy_scalar(got) and got.dtype.name in TOLERANCE:
            default = max(default, TOLERANCE[got.dtype.name])
        rtol = default if self.rtol is None else self.rtol
        value, right = (complex(got), complex(expected)) if "complex" in (sort, wanted) else (got, expected)
        if _equal_numbers(value, right):
            return
        if not _finite(value) or not _finite(right):
            self.fail("finite", f"{number(value)}, expected {number(right)}", what)
        bound = rtol * abs(right) + self.atol
        if honest is not None:
            bound = max(rtol * abs(right), 2 * abs(honest - right)) + self.atol
        error = abs(value - right)
        if not error <= bound:
            shown, wanted_text = numbers_apart(value, right)
            self.fail(
                "value",
                f"{shown}, expected {wanted_text}",
                what,
                where=_error_sentence(float(error), float(bound)) + _factor_hint(value, right),
            )

    def arrays(self, got: Any, expected: Any, honest: Any, what: str, *, listed: bool = False) -> None:
        """`listed`: the test gave plain lists, which stand for a tensor, an array or such lists."""
        plain_list = listed and type(got) in (list, tuple)
        if plain_list:
            values = _as_array(got, what)
        elif (
            (is_tensor(got) and (listed or is_tensor(expected)))
            or (is_array(got) and (listed or is_array(expected)))
            or (is_numpy_scalar(got) and is_array(expected) and expected.ndim == 0)
        ):
            values = _float64(got)
        else:
            self.fail("kind", f"{kind(got)}, expected {kind(expected)} of shape {tuple(expected.shape)}", what)
        if tuple(values.shape) != tuple(expected.shape):
            self.fail("shape", f"shape {tuple(values.shape)}, expected {tuple(expected.shape)}", what)
        if not plain_list:
            self.check_dtype(got, expected, what, listed=listed)
        right = _float64(expected)
        if right.dtype.kind not in "fc" and values.dtype.kind not in "fc":
            wrong = values != right
            if wrong.any():
                error = abs(values.astype(float) - right.astype(float))
                self.values_differ(values, right, error, 0.0 * error, wrong, what)
            return
        self.check_finite(values, right, what)
        name = "" if plain_list else dtype_name(got.dtype)
        self.check_values(values, right, None if honest is None else _float64(honest), name, what)

    def check_dtype(self, got: Any, expected: Any, what: str, *, listed: bool) -> None:
        name, wanted = dtype_name(got.dtype), dtype_name(expected.dtype)
        if self.dtype is not None:
            wanted = dtype_name(self.dtype)
            if name != wanted:
                self.fail("dtype", f"dtype {name}, expected {wanted}", what)
            return
        floats = name.startswith(("float", "bfloat"))
        if wanted == "float64" and not floats:
            self.fail("dtype", f"dtype {name}, expected a float dtype", what)
        elif wanted == "complex128" and not name.startswith("complex"):
            self.fail("dtype", f"dtype {name}, expected a complex dtype", what)
        elif listed and wanted == "int64" and not (floats or name.startswith(("int", "uint"))):
            self.fail("dtype", f"dtype {name}, expected an int or float dtype", what)
        elif name != wanted and wanted not in ("float64", "complex128") and not (listed and wanted == "int64"):
            self.fail("dtype", f"dtype {name}, expected {wanted}", what)

    def check_finite(self, values: Array, right: Array, what: str) -> None:
        import numpy as np

        finite = np.isfinite(right)
        wrong = np.where(finite, ~np.isfinite(values), ~((values == right) | (np.isnan(values) & np.isnan(right))))
        if not wrong.any():
            return
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        count = int(wrong.sum())
        place = f" at {_index(index)}" if index else ""
        message = f"{number(values[index])}{place}, expected {number(right[index])}"
        if np.isnan(values[index]):
            message = f"NaN{place}"
        if count > 1:
            message += f"; first of {count:,}"
        where = f"expected {number(right[index])} there"
        pattern = where_wrong(wrong)
        self.fail("finite", message, what, where=f"{where}; {pattern}" if pattern else where)

    def check_values(self, values: Array, right: Array, honest: Array | None, dtype: str, what: str) -> None:
        import numpy as np

        rtol = self.rtol if self.rtol is not None else TOLERANCE.get(dtype, PLAIN_TOLERANCE)
        finite = np.isfinite(right)
        with np.errstate(all="ignore"):
            size = np.where(finite, np.abs(right), 0.0)
            bound = rtol * _scale(size, finite, self.by or "row")
            if honest is not None:
                if honest.shape != right.shape:
                    raise ValueError(f"close: honest has shape {honest.shape}, expected {right.shape}")
                own = np.abs(honest - right)
                own = np.where(np.isfinite(own), own, 0.0)
                if own.ndim and own.size:
                    own = own.max(axis=None if self.by == "tensor" else -1, keepdims=True)
                bound = np.maximum(bound, 2 * own)
            bound = bound + self.atol
            error = np.where(finite, np.abs(values - right), 0.0)
        wrong = ~(error <= bound)
        if wrong.any():
            self.values_differ(values, right, error, np.broadcast_to(bound, error.shape), wrong, what)

    def values_differ(
        self, values: Array, right: Array, error: Array, bound: Array, wrong: Array, what: str
    ) -> NoReturn:
        import numpy as np

        with np.errstate(all="ignore"):
            ratio = np.where(wrong, error / bound, 0.0)
        # Where nothing is tolerated every error is infinitely too large; the largest one is then the worst.
        badness = np.where(np.isinf(ratio), error, -1.0) if np.isinf(ratio).any() else ratio
        worst = np.unravel_index(int(np.argmax(badness)), badness.shape)
        index = tuple(int(i) for i in worst)
        shown, wanted = numbers_apart(values[index].item(), right[index].item())
        count, total = int(wrong.sum()), int(wrong.size)
        if total == 1:
            message = f"{shown}, expected {wanted}"
        elif count == total:
            message = f"all {total:,} elements are wrong"
        else:
            message = f"{count:,} of {total:,} elements {'is' if count == 1 else 'are'} wrong"
        parts = []
        if total > 1:
            parts.append(f"worst at {_index(index)}: got {shown}, expected {wanted}")
        parts.append(_error_sentence(float(error[index]), float(bound[index])))
        parts += [text for text in (where_wrong(wrong), resemblance(values, right, wrong)) if text]
        self.fail("value", message, what, where="; ".join(parts))


def _scale(size: Array, finite: Array, by: str) -> Array:
    import numpy as np

    if by == "element" or size.ndim == 0 or size.size == 0:
        return size
    if by == "tensor":
        return np.full_like(size, size.max())
    count = np.maximum(finite.sum(-1, keepdims=True), 1)
    # Divided by its largest element first, so that squares neither overflow nor vanish.
    peak = size.max(-1, keepdims=True)
    safe = np.where(peak > 0, peak, 1.0)
    rms = peak * np.sqrt(((size / safe) ** 2).sum(-1, keepdims=True) / count)
    scale: Array = np.maximum(size, rms)
    return scale


def _float64(value: Any) -> Array:
    """A numpy copy or view with float64 (or complex128, or the integers as they are) in it."""
    import numpy as np

    if is_tensor(value):
        torch = sys.modules["torch"]
        value = value.detach()
        if value.layout is not torch.strided or value.device.type != "cpu":
            raise CheckFailed(f"a tensor on {value.device}, {value.layout}; return a dense tensor", aspect="kind")
        value = value.resolve_conj().resolve_neg()
        if value.dtype.is_floating_point:
            value = value.to(torch.float64)
        return np.asarray(value.numpy(), dtype=np.complex128 if value.dtype.is_complex else None)
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    return array.astype(np.complex128, copy=False) if array.dtype.kind == "c" else array


def _only_numbers(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(_only_numbers(item) for item in value)
    return numeric_tower(value) in ("int", "float", "complex", "bool")


def _as_array(value: Any, what: str) -> Array:
    import numpy as np

    try:
        array = np.array(value)
    except ValueError as error:
        raise CheckFailed(f"{what or 'the result'}: rows of different lengths", got=short(value)) from error
    return array if array.size or array.dtype.kind != "f" else array.astype(np.float64)


def _finite(value: Any) -> bool:
    if isinstance(value, complex):
        return math.isfinite(value.real) and math.isfinite(value.imag)
    try:
        return math.isfinite(value)
    except OverflowError:
        return True


def _equal_numbers(a: Any, b: Any) -> bool:
    return bool(a == b) or bool(a != a and b != b)


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _error_sentence(error: float, bound: float) -> str:
    if bound == 0:
        return f"off by {error:.3g}, exact equality required"
    times = error / bound
    multiple = f"{times:,.0f}" if 10 <= times < 1e6 else f"{times:.3g}"
    return f"off by {error:.3g}, {multiple} times the tolerance of {bound:.3g}"


def _factor_hint(got: Any, expected: Any) -> str:
    if got == -expected and got != 0:
        return "; the sign is wrong"
    return ""
