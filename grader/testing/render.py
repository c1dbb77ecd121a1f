"""Values as Python: calls that can be pasted, and one-line summaries of what came back."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grader.testing.kinds import (
    dtype_name,
    is_array,
    is_numpy_scalar,
    is_tensor,
    record_fields,
    record_name,
)
from grader.testing.recipes import recipe_of, still_made_by

SMALL = 12
"""A drawn tensor of up to this many elements is written out, although it has a recipe: numbers teach more."""

_DIGITS = (6, 9, 12, 17)


def render(value: Any, limit: int = 64) -> str:
    """`value` as a Python expression that yields it again; up to `limit` elements are written out.

    A larger tensor that a strategy drew is given by its recipe; any other one by a summary in angle brackets.

    >>> render(torch.tensor([0.1, float("-inf")], dtype=torch.float16))
    'torch.tensor([0.1, float("-inf")], dtype=torch.float16)'
    """
    return _Writer(limit).write(value)


def render_call(function: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """A call as Python that can be pasted: on one line where it fits 100 columns, else one argument a line.

    >>> render_call("softmax", [torch.tensor([1.0, 2.0])], {"block": 7})
    'softmax(torch.tensor([1.0, 2.0]), block=7)'
    """
    parts = [render(arg) for arg in args] + [f"{key}={render(arg)}" for key, arg in (kwargs or {}).items()]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= 100 or not parts:
        return line
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def short(value: Any, width: int = 200, digits: int = 6) -> str:
    """A value on one line of at most about `width` characters, for a reader and not for Python.

    >>> short(torch.zeros(4, 300))
    'tensor of shape (4, 300), float32: [[0, 0, 0, ...], ...]'
    """
    text = _Writer(SMALL, digits=digits).write(value)
    return text if len(text) <= width else f"{text[: width - 4].rstrip()} ..."


def short_apart(a: Any, b: Any) -> tuple[str, str]:
    """Two different values, `short`, with as many digits as it takes to see that they differ, if that can be seen.

    >>> short_apart([1.0], [1.00000001])
    ('[1]', '[1.00000001]')
    """
    for digits in _DIGITS:
        left, right = short(a, digits=digits), short(b, digits=digits)
        if left != right:
            return left, right
    return short(a), short(b)


def number(value: Any, digits: int = 6) -> str:
    """A number for a reader: at most `digits` significant digits.

    >>> number(0.09003057)
    '0.0900306'
    """
    if isinstance(value, bool) or (not isinstance(value, (float, complex)) and not hasattr(value, "imag")):
        return str(value)
    if isinstance(value, int):
        return str(value)
    value = complex(value) if getattr(value, "imag", 0) or isinstance(value, complex) else float(value)
    return f"{value:.{digits}g}"


def numbers_apart(a: Any, b: Any) -> tuple[str, str]:
    """Two different numbers with as many digits as it takes to see that they differ (at least six).

    >>> numbers_apart(1.0, 1.00000001)
    ('1', '1.00000001')
    """
    for digits in _DIGITS:
        left, right = number(a, digits), number(b, digits)
        if left != right:
            break
    return left, right


class _Writer:
    """Writes values out: exactly and so that Python reads them back, or briefly for a reader."""

    def __init__(self, limit: int, *, digits: int | None = None) -> None:
        self.limit = limit
        self.exact = digits is None
        self.digits = digits or 6

    def write(self, value: Any, depth: int = 0) -> str:
        if depth > 20:
            return "..."
        if is_tensor(value) or is_array(value):
            return self._tensor(value)
        if is_numpy_scalar(value):
            return self._numpy_scalar(value)
        kind = type(value)
        if kind is float or kind is complex:
            return _literal(value) if self.exact else number(value, max(self.digits, 9))
        if kind in (str, bytes, bytearray):
            return self._text(value)
        if kind in (int, bool, type(None), type(...), range, slice):
            return repr(value)
        if kind in (list, tuple, set, frozenset):
            return self._items(value, depth)
        if kind is dict:
            return self._dict(value, depth)
        return self._other(value, depth)

    def _items(self, value: Iterable[Any], depth: int) -> str:
        items = [*value] if isinstance(value, (list, tuple)) else sorted(value, key=repr)
        kept = items if len(items) <= max(self.limit, SMALL) else items[: self.limit - 1]
        texts = [self.write(item, depth + 1) for item in kept]
        if len(kept) < len(items):
            texts.append(f"... {len(items) - len(kept):,} more")
        inside = ", ".join(texts)
        if isinstance(value, list):
            return f"[{inside}]"
        if isinstance(value, tuple):
            return f"({inside},)" if len(items) == 1 else f"({inside})"
        if isinstance(value, frozenset):
            return f"frozenset({{{inside}}})" if items else "frozenset()"
        return f"{{{inside}}}" if items else "set()"

    def _dict(self, value: dict[Any, Any], depth: int) -> str:
        kept = [*value.items()][: max(self.limit, SMALL)]
        texts = [f"{self.write(key, depth + 1)}: {self.write(item, depth + 1)}" for key, item in kept]
        if len(kept) < len(value):
            texts.append(f"... {len(value) - len(kept):,} more")
        return f"{{{', '.join(texts)}}}"

    def _text(self, value: str | bytes | bytearray) -> str:
        longest = 16 * self.limit
        if len(value) <= longest:
            return repr(value)
        unit = "characters" if isinstance(value, str) else "bytes"
        return f"{value[:longest]!r} ... {len(value) - longest:,} more {unit}"

    def _other(self, value: Any, depth: int) -> str:
        custom = getattr(type(value), "__rendered__", None)
        if custom is not None:
            return str(custom(value))
        fields = record_fields(value)
        if fields is not None:
            inside = ", ".join(f"{name}={self.write(item, depth + 1)}" for name, item in fields)
            return f"{record_name(value)}({inside})"
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None:
            if isinstance(value, torch.Size):
                return f"torch.Size({list(value)})" if self.exact else repr(tuple(value))
            if isinstance(value, torch.Generator):
                return f"torch.Generator().manual_seed({value.initial_seed()})"
            if isinstance(value, (torch.dtype, torch.device)):
                return f"torch.{value!r}" if isinstance(value, torch.device) else str(value)
        if numpy is not None:
            if isinstance(value, numpy.dtype):
                return f"np.dtype({value.name!r})"
            if isinstance(value, numpy.random.Generator):
                return "np.random.default_rng()"
        if isinstance(value, type):
            return f"np.{value.__name__}" if value.__module__ == "numpy" else value.__qualname__
        # repr() of anything else could run code that is not ours.
        name = getattr(value, "__name__", None) if type(value).__module__ == "builtins" else None
        return str(name) if type(name) is str else f"<{record_name(value)}>"

    def _numpy_scalar(self, value: Any) -> str:
        if not self.exact:
            return number(value, max(self.digits, 9)) if value.dtype.kind in "fc" else str(value)
        if value.dtype.kind in "fc":
            return f"np.{type(value).__name__}({_number_text(value)})"
        return f"np.{value.dtype.name if value.dtype.kind != 'b' else 'bool'}({value})"

    def _tensor(self, value: Any) -> str:
        count = value.numel() if is_tensor(value) else value.size
        if self.exact and (count > SMALL or not _ordinary(value)):
            code = recipe_of(value)
            if code is not None and still_made_by(value, code):
                return code
        if count > self.limit:
            return self._cut(value)
        return self._written_out(value, count)

    def _written_out(self, value: Any, count: int) -> str:
        torch_like = is_tensor(value)
        prefix = ("torch." if torch_like else "np.") if self.exact else ""
        dtype = dtype_name(value.dtype)
        if not self.exact:
            dtype_text = "" if dtype in ("float32", "float64", "int64", "bool") else f", {dtype}"
        elif dtype in (("float32", "int64", "bool") if torch_like else ("float64", "int64", "bool")) and count:
            dtype_text = ""
        elif torch_like:
            dtype_text = f", dtype=torch.{dtype}"
        else:
            dtype_text = f", dtype={f'np.{dtype}' if value.dtype.kind in 'biufc' else repr(value.dtype.str)}"
        if count == 0:
            shape = ", ".join(map(str, value.shape))
            return f"{prefix}zeros(({shape}{',' if value.ndim == 1 else ''}){dtype_text})"
        nested = _plain(value).tolist()
        texts = _element_texts(value) if self.exact else iter([number(x, self.digits) for x in _flat(nested)])
        grad = ", requires_grad=True" if self.exact and torch_like and value.requires_grad and value.is_leaf else ""
        return f"{prefix}{'tensor' if torch_like else 'array'}({_nested(nested, texts)}{dtype_text}{grad})"

    def _cut(self, value: Any) -> str:
        kind = "tensor" if is_tensor(value) else "array"
        head = _plain(value)
        for _ in range(value.ndim - 1):
            head = head[0]
        first = ", ".join(number(x, self.digits) for x in head[:3].tolist())
        rest = ", ..." if head.shape[0] > 3 else ""
        inside = f"[{first}{rest}]"
        for axis in reversed(range(value.ndim - 1)):
            inside = f"[{inside}, ...]" if value.shape[axis] > 1 else f"[{inside}]"
        text = f"{kind} of shape {tuple(value.shape)}, {dtype_name(value.dtype)}: {inside}"
        return f"<{text}>" if self.exact else text


def _literal(value: float | complex) -> str:
    if isinstance(value, complex):
        if math.isfinite(value.real) and math.isfinite(value.imag):
            return repr(value)
        return f"complex({_literal(value.real)}, {_literal(value.imag)})"
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _number_text(value: Any) -> str:
    """The shortest text that a numpy float or complex number is read back from."""
    if value.dtype.kind == "c" or not math.isfinite(value):
        return _literal(value.item())
    return str(value)


def _ordinary(value: Any) -> bool:
    """Whether writing out the elements loses nothing: row-major from the start of its memory, no gradient."""
    item = 1 if is_tensor(value) else value.itemsize
    strides = []
    for length in reversed(value.shape):
        strides.append(item)
        item *= max(length, 1)
    if is_tensor(value):
        plain = value.storage_offset() == 0 and not value.requires_grad
        return plain and value.stride() == tuple(reversed(strides))
    return bool(value.strides == tuple(reversed(strides)))


def _plain(value: Any) -> Any:
    """Without autograd, and in a dtype that has tolist() (fp8 has not)."""
    if is_tensor(value):
        value = value.detach()
        return value.float() if value.dtype.itemsize == 1 and value.dtype.is_floating_point else value
    return value


def _flat(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    return [x for item in nested for x in _flat(item)]


def _nested(nested: Any, texts: Any) -> str:
    if not isinstance(nested, list):
        return str(next(texts))
    return f"[{', '.join(_nested(item, texts) for item in nested)}]"


def _element_texts(value: Any) -> Any:
    """The shortest decimal of each element that the dtype reads back as the same number."""
    if is_tensor(value):
        numbers = _flat(_plain(value).tolist())
        if not value.dtype.is_floating_point:
            return iter([_literal(x) if isinstance(x, complex) else str(x) for x in numbers])
        return iter(_shortest(numbers, value))
    if value.dtype.kind in "fc":
        return iter([_number_text(x) for x in value.ravel()])
    return iter([repr(x) for x in value.ravel().tolist()])


def _shortest(numbers: list[float], like: Any) -> list[str]:
    torch = sys.modules["torch"]
    exact = [_literal(x) for x in numbers]
    if like.dtype == torch.float64:
        return exact
    best = list(exact)
    open_ = [i for i, x in enumerate(numbers) if math.isfinite(x)]
    for digits in range(1, 10):
        tries = [_with_point(f"{numbers[i]:.{digits}g}") for i in open_]
        back = torch.tensor([float(text) for text in tries], dtype=like.dtype).tolist()
        for i, text, x in zip(open_, tries, back, strict=True):
            if x == numbers[i]:
                best[i] = text
        open_ = [i for i, x in zip(open_, back, strict=True) if x != numbers[i]]
        if not open_:
            break
    return best


def _with_point(text: str) -> str:
    """A float's text with a point or exponent, so that Python does not read an int ('1e+03' becomes '1000.0')."""
    return repr(float(text))
