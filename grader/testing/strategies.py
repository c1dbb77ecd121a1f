"""Strategies for property tests: hypothesis underneath, tensors from a drawn kind and a drawn seed.

A tensor costs a handful of choices however large it is, so drawing is fast, and shrinking goes to small sizes and to
the plainest kind. What was drawn prints as the expression that made it.
"""

from __future__ import annotations

import copy
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

from grader.testing import battery
from grader.testing.battery import Plan
from grader.testing.kinds import dtype_name
from grader.testing.recipes import make

T = TypeVar("T")
Bounds = tuple[int, int]
Size = int | Bounds | SearchStrategy[int]

REVEALING = (0, 1, 15, 16, 17, 100, 127, 128, 129)
"""Sizes at which code that works in blocks breaks."""

_SEEDS = 10_000

# Hypothesis also draws constants that it reads from the source of every imported module outside site-packages. That
# makes a seed mean something else whenever another module is imported, and costs the parsing of all of them.
if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):
    _no_constants = copy.deepcopy(providers._local_constants)
    providers._get_local_constants = lambda: _no_constants


# ---- numbers


def integers(low: int | None = None, high: int | None = None) -> SearchStrategy[int]:
    """Whole numbers from `low` to `high`, both included; between bounds half of them are 0, 1, 15, 16, 17, 100, 127,
    128, 129 or the bounds themselves. Shrinks towards the smallest.

    >>> @given(block=integers(1, 400))
    """
    if low is None or high is None or low < 0 or high - low < 2:
        return st.integers(low, high)
    return _leaning(low, high)


def _leaning(low: int, high: int) -> SearchStrategy[int]:
    special = sorted({n for n in REVEALING if low <= n <= high} | {low, high})
    extra = max(1, (high - low) // len(special))
    # One choice decides: a long line on which special numbers are wide and the others one unit each.
    ends = [n - low + extra * i for i, n in enumerate(special)]

    def number(position: int) -> int:
        i = bisect_right(ends, position) - 1
        return max(special[i], position - extra * (i + 1) + low)

    return st.integers(0, high - low + extra * len(special)).map(number)


def floats(
    low: float | None = None, high: float | None = None, *, nan: bool = False, infinity: bool = False
) -> SearchStrategy[float]:
    """Python floats from `low` to `high`, both included; NaN and infinities only if asked for.

    >>> @given(temperature=floats(0.1, 2.0))
    """
    return st.floats(low, high, allow_nan=nan, allow_infinity=infinity)


def booleans() -> SearchStrategy[bool]:
    """True or False; shrinks to False.

    >>> @given(causal=booleans())
    """
    return st.booleans()


# ---- combining


def sampled_from(values: Iterable[T]) -> SearchStrategy[T]:
    """One of the given values; shrinks to the first.

    >>> @given(d=sampled_from([16, 64, 80]))
    """
    return st.sampled_from(list(values))


def just(value: T) -> SearchStrategy[T]:
    """Always this value.

    >>> @given(scale=one_of(just(None), floats(0.1, 2.0)))
    """
    return st.just(value)


def one_of(*strategies: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Whatever one of the strategies gives; shrinks to the first.

    >>> @given(mask=one_of(just(None), tensors(n=8, dtype=torch.bool)))
    """
    return st.one_of(*strategies)


def tuples(*strategies: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    """A tuple with one item of each strategy.

    >>> @given(counts=tuples(integers(1, 9), integers(1, 9)))
    """
    return st.tuples(*strategies)


def lists(
    elements: SearchStrategy[T],
    n: int | Bounds = (0, 10),
    *,
    unique: bool = False,
    min_size: int | None = None,
    max_size: int | None = None,
) -> SearchStrategy[list[T]]:
    """A list of `n` items (a number or bounds, both included).

    >>> @given(scores=lists(floats(0, 1), n=(2, 30)))
    """
    low, high = _length(n, min_size, max_size)
    return st.lists(elements, min_size=low, max_size=high, unique=unique)


def shared(strategy: SearchStrategy[T]) -> SearchStrategy[T]:
    """The same value wherever this object stands in one example: for axes that tensors have in common.

    >>> d = shared(integers(1, 64))
    >>> @given(q=tensors(n=(1, 50), d=d), k=tensors(m=(1, 50), d=d))
    """
    return st.shared(strategy, key=object())


def _length(n: int | Bounds, low: int | None = None, high: int | None = None) -> Bounds:
    lowest, highest = (n, n) if isinstance(n, int) else n
    if low is not None or high is not None:
        lowest = low or 0
        highest = high if high is not None else lowest + 10
    if not 0 <= lowest <= highest:
        raise ValueError(f"a length from {lowest} to {highest}: bounds must be (low, high) with 0 <= low <= high")
    return lowest, highest


# ---- tensors and arrays


def tensors(
    *,
    dtype: Any = None,
    values: str | Bounds = "any",
    layout: str = "contiguous",
    leading: int | Bounds = 0,
    requires_grad: bool = False,
    **axes: Size,
) -> SearchStrategy[Any]:
    """Tensors with the named axes in this order, each a number, bounds (both included) or a strategy.

    Sizes lean to 1, 15, 16, 17, 100, 127, 128, 129. `values`: "any" draws from the battery (counting, randn, randn * 8,
    randn + 3, equal rows, one huge element per row, a peak at the end), "normal" only randn, "logits" the battery and
    +-1e4, single -inf, rows that begin with -inf, a row of -inf. Integer dtypes take bounds: `values=(0, 99)`.
    `dtype` may be a list to draw from. `layout="any"` also gives strided and transposed tensors and such with a storage
    offset. `leading=(0, 2)` puts up to two more axes of 1 to 3 in front. `dtype` is float32 if not given.

    >>> @given(x=tensors(rows=(1, 4), n=(1, 300)), ids=tensors(n=(0, 20), dtype=torch.int64, values=(0, 99)))
    """
    return _drawn("torch", dtype or "float32", values, layout, leading, requires_grad, axes)


def arrays(
    *,
    dtype: Any = None,
    values: str | Bounds = "any",
    layout: str = "contiguous",
    leading: int | Bounds = 0,
    **axes: Size,
) -> SearchStrategy[Any]:
    """Numpy arrays; as `tensors`, float64 by default.

    >>> @given(x=arrays(rows=(1, 4), n=(1, 300)), q=arrays(n=(1, 20), d=8, dtype=np.float16, values="normal"))
    """
    return _drawn("numpy", dtype or "float64", values, layout, leading, False, axes)


def _drawn(
    library: str,
    dtype: Any,
    values: str | Bounds,
    layout: str,
    leading: int | Bounds,
    requires_grad: bool,
    axes: dict[str, Size],
) -> SearchStrategy[Any]:
    dtypes = [dtype_name(d) for d in dtype] if isinstance(dtype, (list, tuple)) else [dtype_name(dtype)]
    kinds = {name: _kinds(name, values) for name in dtypes}
    if layout not in ("contiguous", "any"):
        raise ValueError(f'layout={layout!r}: it is "contiguous" or "any"')
    sizes = [_axis(name, size) for name, size in axes.items()]
    more = _length(leading)
    low, high = values if isinstance(values, tuple) else (0, 0)

    @st.composite
    def build(draw: st.DrawFn) -> Any:
        extra = draw(st.integers(*more)) if more != (0, 0) else 0
        shape = tuple(
            [draw(_LEADING) for _ in range(extra)] + [size if isinstance(size, int) else draw(size) for size in sizes]
        )
        name = dtypes[0] if len(dtypes) == 1 else draw(st.sampled_from(dtypes))
        possible = kinds[name] if shape else battery.scalar_kinds(kinds[name])
        kind = draw(st.integers(0, len(possible) - 1)) if len(possible) > 1 else 0
        seed = draw(_SEED) if kind or len(possible) == 1 else 0
        lowest, highest = (low, high) if isinstance(values, tuple) else _INTEGER_RANGE.get(name, (-8, 8))
        plan = Plan(shape, name, seed, library, lowest, highest)
        code = battery.empty(plan) if 0 in shape else possible[kind](plan)
        if layout == "any":
            ways = battery.layouts(plan)
            code = ways[draw(st.integers(0, len(ways) - 1)) if len(ways) > 1 else 0](code)
        return make(f"({code}).requires_grad_()" if requires_grad else code)

    return build()


_SEED = st.integers(0, _SEEDS - 1)
_LEADING = st.integers(1, 3)
_INTEGER_RANGE: dict[str, Bounds] = {"uint8": (0, 255), "int8": (-128, 127)}


def _kinds(dtype: str, values: str | Bounds) -> Sequence[battery.Code]:
    if dtype == "bool":
        return battery.BOOLEANS
    if dtype.startswith(("int", "uint")):
        if values not in ("any", "normal") and not isinstance(values, tuple):
            raise ValueError(f"values={values!r} for {dtype}: give bounds, such as values=(0, 99)")
        return battery.INTEGERS
    table: dict[Any, Sequence[battery.Code]] = {
        "any": battery.FLOATS,
        "normal": battery.NORMAL,
        "logits": battery.LOGITS,
    }
    if not dtype.startswith(("float", "bfloat")):
        raise ValueError(f"tensors of {dtype} cannot be drawn")
    if values not in table or (values == "logits" and dtype.startswith("float8")):
        raise ValueError(f'values={values!r} for {dtype}: it is "any", "normal" or "logits"')
    return table[values]


def _axis(name: str, size: Size) -> int | SearchStrategy[int]:
    if isinstance(size, SearchStrategy):
        return size
    low, high = _length(size)
    return low if low == high else integers(low, high)


# ---- language and probability


def token_ids(vocab: int, n: int | Bounds = (0, 50)) -> SearchStrategy[list[int]]:
    """A list of `n` token ids below `vocab`: counting up, random, one id only, the extremes, a repeated phrase.

    >>> @given(prompt=token_ids(50, n=(1, 20)))
    """
    if vocab < 1:
        raise ValueError(f"token_ids(vocab={vocab}): there must be a token")
    low, high = _length(n)
    length = st.just(low) if low == high else integers(low, high)

    def ids(drawn: tuple[int, int, int]) -> list[int]:
        count, kind, seed = drawn
        rng = random.Random(seed)
        if kind == 0:
            return [i % vocab for i in range(count)]
        if kind == 1:
            return [rng.randrange(vocab) for _ in range(count)]
        if kind == 2:
            return [rng.randrange(vocab)] * count
        if kind == 3:
            return [rng.choice((0, vocab - 1)) for _ in range(count)]
        phrase = [rng.randrange(vocab) for _ in range(rng.randint(2, 5))]
        return [phrase[i % len(phrase)] for i in range(count)]

    return st.tuples(length, st.integers(0, 4), _SEED).map(ids)


def probability_rows(
    rows: int | Bounds | None = (1, 4), n: int | Bounds = (2, 20), *, dtype: Any = None
) -> SearchStrategy[Any]:
    """Rows of probabilities that sum to 1: uniform, random, with zeros, peaked, one-hot, with tiny entries.

    A float64 numpy array, or a tensor if `dtype` is torch's; `rows=None` gives one distribution without a row axis.

    >>> @given(p=probability_rows(rows=(1, 4), n=(2, 20)), q=probability_rows(rows=None, n=5, dtype=torch.float64))
    """
    lengths = st.just(0) if rows is None else _as_strategy(rows)
    wrap: Callable[[str], str]
    name = dtype_name(dtype) if dtype is not None else "float64"
    if str(dtype).startswith("torch."):
        wrap = lambda code: f"torch.from_numpy({code})" + (f".to(torch.{name})" if name != "float64" else "")  # noqa: E731
    else:
        wrap = lambda code: code if name == "float64" else f"{code}.astype(np.{name})"  # noqa: E731

    def build(drawn: tuple[int, int, int, int]) -> Any:
        count, width, kind, seed = drawn
        size = "" if rows is None else f", {count}"
        rng = f"np.random.default_rng({seed})"
        if kind == 0 or width == 0 or (kind == 2 and width == 1):
            shape = f"({width},)" if rows is None else f"({count}, {width})"
            code = f"np.full({shape}, {f'1 / {width}' if width else 1.0})"
        elif kind == 1:
            code = f"{rng}.dirichlet([1.0] * {width}{size})"
        elif kind == 2:
            pad = "(0, 1)" if rows is None else "((0, 0), (0, 1))"
            code = f"np.pad({rng}.dirichlet([1.0] * {width - 1}{size}), {pad})"
        elif kind == 3:
            code = f"{rng}.dirichlet([0.2] * {width}{size})"
        elif kind == 4:
            code = f"np.eye({width})[{rng}.integers({width}{size and f', size={count}'})]"
        else:
            shape = f"{width}" if rows is None else f"({count}, {width})"
            code = f"(lambda w: w / w.sum(-1, keepdims=True))(1e-12 ** {rng}.random({shape}))"
        return make(wrap(code))

    return st.tuples(lengths, _as_strategy(n), st.integers(0, 5), _SEED).map(build)


def _as_strategy(size: int | Bounds) -> SearchStrategy[int]:
    low, high = _length(size)
    return st.just(low) if low == high else integers(low, high)


def permutations(n: int | Bounds) -> SearchStrategy[list[int]]:
    """The numbers 0 to n - 1 in some order: as they are, reversed, rotated, shuffled.

    >>> @given(order=permutations((1, 12)))
    """

    def order(drawn: tuple[int, int, int]) -> list[int]:
        count, kind, seed = drawn
        numbers = list(range(count))
        if kind == 1:
            return numbers[::-1]
        if kind == 2:
            return numbers[1:] + numbers[:1]
        if kind > 2:
            random.Random(seed).shuffle(numbers)
        return numbers

    return st.tuples(_as_strategy(n), st.integers(0, 5), _SEED).map(order)


def ragged(lengths: Bounds = (0, 9), rows: int | Bounds = (1, 5)) -> SearchStrategy[list[int]]:
    """Lengths of the sequences of a ragged batch.

    >>> @given(lengths=ragged(lengths=(0, 40), rows=(1, 5)))
    """
    low, high = _length(rows)
    return st.lists(_as_strategy(lengths), min_size=low, max_size=high)


# ---- text and bytes

PLAIN = "ab c.,d0e1'AB\n"
REVEALING_CHARACTERS = (
    "\t\r\0\x1b\x7f\x85\xa0"  # control characters, other line ends and spaces
    "é߀ßİſǅ"  # case mappings that change length
    "\u0301\u0308\u200d\u200b\ufeff\u2028\ufe0f"  # combining marks, joiners, invisible characters
    "שלםمرحبا\u202e"  # right to left
    "漢字ひ한ไ"
    "😀👩🏽🇩🇪𝒳𐍈"  # beyond the 16-bit plane
)
PHRASES = (
    "\r\n",
    "e\u0301",
    "👩\u200d👩\u200d👧\u200d👦",
    "👋🏽",
    "🇩🇪",
    "שלום",
    "مرحبا",
    "  ",
    "\n\n",
    "don't",
    "3.14",
    "naïve",
    "日本語",
    "<|endoftext|>",
    "\ufffd",
)


def text(n: int | Bounds = (0, 50), *, min_size: int | None = None, max_size: int | None = None) -> SearchStrategy[str]:
    """Any unicode text of `n` characters: plain, combining, right to left, emoji with joiners, control, CRLF; no lone
    surrogates, so it can be encoded as UTF-8.

    >>> @given(line=text(n=(0, 200)))
    """
    low, high = _length(n, min_size, max_size)
    plain, revealing = st.sampled_from(PLAIN), st.sampled_from(REVEALING_CHARACTERS)
    # Not st.characters(): it writes a table of all unicode into a folder .hypothesis where the learner works.
    any_character = st.one_of(plain, revealing, _CODE_POINT, st.integers(0, 0x2FF).map(chr))
    phrases = st.lists(st.one_of(st.sampled_from(PHRASES), plain), max_size=max(1, high // 2))
    return st.one_of(
        st.lists(plain, min_size=low, max_size=high).map("".join),
        st.lists(any_character, min_size=low, max_size=high).map("".join),
        phrases.map(lambda parts: "".join(parts)[:high].ljust(low, "a")),
    )


# Every code point but the surrogates.
_CODE_POINT = st.integers(0, 0x10FFFF - 0x800).map(lambda n: chr(n if n < 0xD800 else n + 0x800))


def binary(
    n: int | Bounds = (0, 50), *, min_size: int | None = None, max_size: int | None = None
) -> SearchStrategy[bytes]:
    """Any `n` bytes, also such as are no UTF-8.

    >>> @given(data=binary(n=(0, 100)))
    """
    low, high = _length(n, min_size, max_size)
    return st.binary(min_size=low, max_size=high)
