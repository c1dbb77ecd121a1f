"""Exact equality, by value and by kind, of nested results."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, NoReturn

from grader.testing.failure import CheckFailed
from grader.testing.foreign import Foreign
from grader.testing.kinds import (
    dtype_name,
    is_array,
    is_tensor,
    kind,
    numeric_tower,
    record_fields,
    record_name,
)
from grader.testing.render import number, numbers_apart, short, short_apart


def equal(got: Any, expected: Any, what: str = "") -> None:
    """Fail unless `got` is exactly `expected`, down to the kind of each item.

    True is not 1, a tuple is not a list, 3.0 is not 3; but np.int64(3) is 3, an int will do for a float, NaN equals NaN
    and -0.0 equals 0.0. Tensors and arrays must agree in dtype, shape and every element. Dicts have no order.

    >>> equal(submission.encode("low lower"), [3, 17, 4])
    >>> equal(submission.split(text), ("a", "b"), what="words")
    """
    __tracebackhide__ = True
    _Equality(got, expected).run(got, expected, what, 0)


class _Equality:
    def __init__(self, whole_got: Any, whole_expected: Any) -> None:
        self.whole_got = whole_got
        self.whole_expected = whole_expected

    def fail(self, aspect: str, message: str, what: str, where: str = "") -> NoReturn:
        got, expected = short_apart(self.whole_got, self.whole_expected)
        if got == expected and type(self.whole_got) is type(self.whole_expected) is str:
            got, expected = ascii(self.whole_got), ascii(self.whole_expected)
        raise CheckFailed(
            f"{what}: {message}" if what else message,
            got=got,
            expected=expected,
            where=where,
            aspect=f"{aspect} {what}".strip(),
            subject=self.whole_got,
        )

    def run(self, got: Any, expected: Any, what: str, depth: int) -> None:
        if depth > 200:
            self.fail("kind", "nested too deeply", what)
        if isinstance(got, Foreign):
            self.fail("kind", got.sentence(), what)
        sort = numeric_tower(expected)
        if sort:
            self.numbers(got, expected, sort, what)
        elif is_tensor(expected) or is_array(expected):
            self.arrays(got, expected, what)
        elif type(expected) in (list, tuple):
            self.sequences(got, expected, what, depth)
        elif isinstance(expected, Mapping):
            self.mappings(got, expected, what, depth)
        elif type(expected) in (set, frozenset):
            self.sets(got, expected, what)
        elif type(expected) in (str, bytes, bytearray):
            self.texts(got, expected, what)
        elif record_fields(expected) is not None:
            self.records(got, expected, what, depth)
        elif type(got) is not type(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)}", what)
        elif got is not expected and not bool(got == expected):
            # Same type as something that the test made (None, a dtype, a range): not a learner's class.
            self.fail("value", f"{short(got)}, expected {short(expected)}", what)

    def numbers(self, got: Any, expected: Any, sort: str, what: str) -> None:
        came = numeric_tower(got)
        if came != sort and not (came == "int" and sort == "float"):
            extra = f" of shape {tuple(got.shape)}" if is_tensor(got) or is_array(got) else ""
            shown = f" ({number(got)})" if came else ""
            self.fail("kind", f"{kind(got)}{extra}{shown}, expected {kind(expected)} ({number(expected)})", what)
        if not _same_number(got, expected):
            left, right = numbers_apart(got, expected)
            self.fail("value", f"{left}, expected {right}", what)

    def sequences(self, got: Any, expected: Any, what: str, depth: int) -> None:
        if type(got) is not type(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)} of {_items(len(expected))}", what)
        for i, (item, right) in enumerate(zip(got, expected, strict=False)):
            self.run(item, right, f"{what}[{i}]" if what else f"item {i}", depth + 1)
        if len(got) > len(expected):
            surplus = short(got[len(expected)])
            self.fail("length", f"{_items(len(got))}, expected {len(expected)}; the first too many is {surplus}", what)
        if len(got) < len(expected):
            missing = short(expected[len(got)])
            self.fail("length", f"{_items(len(got))}, expected {len(expected)}; the first missing is {missing}", what)

    def mappings(self, got: Any, expected: Mapping[Any, Any], what: str, depth: int) -> None:
        if type(got) is not dict:
            self.fail("kind", f"{kind(got)}, expected a dict", what)
        keys, wanted = {_hashed(key): key for key in got}, {_hashed(key): key for key in expected}
        missing = [short(wanted[key]) for key in wanted if key not in keys]
        extra = [short(keys[key]) for key in keys if key not in wanted]
        if missing or extra:
            parts = [f"no key {_some(missing)}"] if missing else []
            parts += [f"unexpected key {_some(extra)}"] if extra else []
            self.fail("keys", "; ".join(parts), what)
        for hashed, key in wanted.items():
            name = f"{what}[{short(key)}]" if what else f"item {short(key)}"
            self.run(got[keys[hashed]], expected[key], name, depth + 1)

    def sets(self, got: Any, expected: Any, what: str) -> None:
        if type(got) is not type(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)}", what)
        have, want = {_hashed(x): x for x in got}, {_hashed(x): x for x in expected}
        missing = sorted(short(want[key]) for key in want if key not in have)
        extra = sorted(short(have[key]) for key in have if key not in want)
        if missing or extra:
            parts = [f"{_some(missing)} is missing"] if missing else []
            parts += [f"{_some(extra)} is too many"] if extra else []
            self.fail("value", "; ".join(parts), what)

    def texts(self, got: Any, expected: Any, what: str) -> None:
        if type(got) is not type(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)}", what)
        if got == expected:
            return
        unit = "character" if isinstance(expected, str) else "byte"
        place = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), None)
        if place is None:
            place = min(len(got), len(expected))
            longer = "too long" if len(got) > len(expected) else "too short"
            where = f"the first {place} {unit}s agree; got is {longer}: {len(got)} {unit}s, expected {len(expected)}"
        else:
            left, right = _look(got, place), _look(expected, place)
            where = f"first difference at {unit} {place}: {left}, expected {right}"
        self.fail(
            "value",
            f"{short(got)}, expected {short(expected)}"
            if len(expected) < 30 > len(got)
            else f"differs from {unit} {place} on",
            what,
            where,
        )

    def records(self, got: Any, expected: Any, what: str, depth: int) -> None:
        fields = record_fields(got)
        if fields is None or record_name(got) != record_name(expected):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)}", what)
        values = dict(fields)
        for name, right in record_fields(expected) or []:
            if name not in values:
                self.fail("kind", f"{kind(got)} without the field {name}", what)
            self.run(values[name], right, f"{what}.{name}".lstrip("."), depth + 1)

    def arrays(self, got: Any, expected: Any, what: str) -> None:
        if not (is_tensor(got) if is_tensor(expected) else is_array(got)):
            self.fail("kind", f"{kind(got)}, expected {kind(expected)} of shape {tuple(expected.shape)}", what)
        if tuple(got.shape) != tuple(expected.shape):
            self.fail("shape", f"shape {tuple(got.shape)}, expected {tuple(expected.shape)}", what)
        if got.dtype != expected.dtype:
            self.fail("dtype", f"dtype {dtype_name(got.dtype)}, expected {dtype_name(expected.dtype)}", what)
        if is_tensor(got):
            got, expected = _to_numpy(got), _to_numpy(expected)
        wrong = got != expected
        if got.dtype.kind in "fc":
            wrong &= (got == got) | (expected == expected)
        if not wrong.any():
            return
        import numpy as np

        from grader.testing.patterns import where_wrong

        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        left, right = numbers_apart(got[index].item(), expected[index].item())
        count = int(wrong.sum())
        place = f"first at [{', '.join(map(str, index))}]: got {left}, expected {right}"
        pattern = where_wrong(wrong)
        verb = "differs" if count == 1 else "differ"
        self.fail(
            "value",
            f"{left}, expected {right}" if wrong.size == 1 else f"{count:,} of {wrong.size:,} elements {verb}",
            what,
            where=f"{place}; {pattern}" if pattern else place,
        )


def _to_numpy(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    tensor = tensor.detach().resolve_conj().resolve_neg()
    # Exact: float64 holds every value of the narrower types, some of which numpy lacks.
    return tensor.to(torch.float64).numpy() if tensor.dtype.is_floating_point else tensor.numpy()


def _same_number(a: Any, b: Any) -> bool:
    if a == b:
        return True
    return bool(a != a and b != b) or (
        isinstance(a, complex)
        and isinstance(b, complex)
        and all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in ((a.real, b.real), (a.imag, b.imag)))
    )


def _hashed(key: Any) -> Any:
    """Something to look a key up by that tells 1 from True and from 1.0, also inside tuples."""
    if type(key) in (tuple, frozenset):
        return type(key), tuple(map(_hashed, key)) if type(key) is tuple else frozenset(map(_hashed, key))
    return numeric_tower(key) or type(key), key


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")


def _look(text: Any, place: int) -> str:
    """One character of a text so that it can be told from its look-alikes."""
    item = text[place]
    if isinstance(item, int):
        return f"0x{item:02x}"
    if " " <= item <= "~":
        return repr(item)
    return f"{item!a} ({unicodedata.name(item, 'unnamed')})"
