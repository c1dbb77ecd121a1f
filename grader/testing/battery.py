"""The input battery: each kind of tensor as the Python expression that makes it, plainest kind first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

Code = Callable[["Plan"], str]


@dataclass(frozen=True)
class Plan:
    """What was drawn for one tensor; `seed` and `pick` say which of its kind."""

    shape: tuple[int, ...]
    dtype: str
    """"float32", "int64", ..."""
    seed: int
    library: str = "torch"
    low: int = 0
    high: int = 0
    """Bounds of integers, both inclusive."""

    @property
    def sizes(self) -> str:
        """The shape as arguments: "4, 300"; "()" for a scalar."""
        return ", ".join(map(str, self.shape)) or "()"

    @property
    def tuple(self) -> str:
        """The shape as a tuple: "(4, 300)"."""
        return f"({self.sizes},)" if len(self.shape) == 1 else f"({self.sizes})" if self.shape else "()"

    @property
    def generator(self) -> str:
        """The seeded generator: torch's as a keyword argument, numpy's as an object."""
        if self.library == "torch":
            return f"generator=torch.Generator().manual_seed({self.seed})"
        return f"np.random.default_rng({self.seed})"

    @property
    def columns(self) -> int:
        """The length of the last axis."""
        return self.shape[-1]

    def rows(self, last: int = 1) -> Plan:
        """The same with a last axis of this length."""
        return Plan((*self.shape[:-1], last), self.dtype, self.seed, self.library, self.low, self.high)

    def cast(self, code: str, made: str) -> str:
        """`code` in the wanted dtype, given that it makes `made`."""
        if self.dtype == made:
            return code
        code = code if _one_call(code) else f"({code})"
        return f"{code}.to(torch.{self.dtype})" if self.library == "torch" else f"{code}.astype(np.{self.dtype})"


def _one_call(code: str) -> bool:
    """Whether a method can be appended without parentheses: no operator outside brackets."""
    depth = 0
    for character in code:
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character in "+-*/%<> ":
            return False
    return True


def _normal(p: Plan) -> str:
    if p.library == "numpy":
        return f"{p.generator}.standard_normal({p.tuple})"
    return f"torch.randn({p.sizes}, {p.generator}{_wide(p)})"


def _uniform(p: Plan) -> str:
    return f"{p.generator}.random({p.tuple})" if p.library == "numpy" else f"torch.rand({p.sizes}, {p.generator})"


def _wide(p: Plan) -> str:
    # Drawn in float64 where that is asked for: a float32 number widened has a mantissa full of zeros.
    return ", dtype=torch.float64" if p.dtype == "float64" else ""


def _made(p: Plan) -> str:
    return "float64" if p.library == "numpy" or p.dtype == "float64" else "float32"


def _real(code: Callable[[Plan], str]) -> Code:
    return lambda p: p.cast(code(p), _made(p))


def _counting(p: Plan) -> str:
    count = prod(p.shape)
    if p.library == "numpy":
        return p.cast(f"(np.arange({count}) % 5 + 1.0).reshape({p.tuple})", "float64")
    return p.cast(f"(torch.arange({count}) % 5 + 1.0).reshape({p.tuple})", "float32")


def _fill_column(p: Plan, column: str, value: str) -> str:
    if p.library == "numpy":
        return f"np.where(np.arange({p.columns}) == {column}, {value}, {_normal(p)})"
    return f"{_normal(p)}.index_fill(-1, torch.tensor([{column}]), {value})"


def _heavy_tail(p: Plan) -> str:
    """One huge element per row."""
    if p.library == "numpy":
        where = f"{p.generator}.integers(0, {p.columns}, {p.rows().tuple})"
        return f"np.where(np.arange({p.columns}) == {where}, 1e3, {_normal(p)})"
    where = f"torch.randint(0, {p.columns}, {p.rows().tuple}, {p.generator})"
    return f"{_normal(p)}.scatter(-1, {where}, 1e3)"


def _equal_rows(p: Plan) -> str:
    """Every row constant, each with a number of its own."""
    if p.library == "numpy":
        return f"{_normal(p.rows())}.repeat({p.columns}, -1)"
    return f"{_normal(p.rows())}.repeat({', '.join(['1'] * (len(p.shape) - 1) + [str(p.columns)])})"


def _infinity(p: Plan) -> str:
    return "-np.inf" if p.library == "numpy" else 'float("-inf")'


def _masked_entries(p: Plan) -> str:
    if p.library == "numpy":
        return f"np.where({_uniform(p)} < 0.3, {_infinity(p)}, {_normal(p)})"
    return f"{_normal(p)}.masked_fill({_uniform(p)} < 0.3, {_infinity(p)})"


def _masked_start(p: Plan) -> str:
    """The first half of every row is -inf."""
    half = (p.columns + 1) // 2
    if p.library == "numpy":
        return f"np.where(np.arange({p.columns}) < {half}, {_infinity(p)}, {_normal(p)})"
    return f"{_normal(p)}.index_fill(-1, torch.arange({half}), {_infinity(p)})"


def _masked_row(p: Plan) -> str:
    """One whole row is -inf."""
    if len(p.shape) < 2:
        full = "np.full" if p.library == "numpy" else "torch.full"
        return f"{full}({p.tuple}, {_infinity(p)}{_wide(p) if p.library == 'torch' else ''})"
    row = p.seed % p.shape[-2]
    if p.library == "numpy":
        return f"np.where(np.arange({p.shape[-2]})[:, None] == {row}, {_infinity(p)}, {_normal(p)})"
    return f"{_normal(p)}.index_fill(-2, torch.tensor([{row}]), {_infinity(p)})"


NORMAL: Sequence[Code] = (_real(_normal),)
FLOATS: Sequence[Code] = (
    _counting,
    _real(_normal),
    _real(lambda p: f"{_normal(p)} * 8"),
    _real(lambda p: f"{_normal(p)} + 3"),
    _real(_equal_rows),
    _real(_heavy_tail),
    _real(lambda p: _fill_column(p, str(p.columns - 1), "20.0")),
)
LOGITS: Sequence[Code] = (
    *FLOATS,
    _real(lambda p: f"{_normal(p)} + 1e4"),
    _real(lambda p: f"{_normal(p)} - 1e4"),
    _real(_masked_entries),
    _real(_masked_start),
    _real(_masked_row),
)


def _count_up(p: Plan) -> str:
    library = "np" if p.library == "numpy" else "torch"
    code = f"{library}.arange({prod(p.shape)}) % {p.high - p.low + 1}"
    code = f"({code} + {p.low})" if p.low > 0 else f"({code} - {-p.low})" if p.low < 0 else f"({code})"
    return p.cast(f"{code}.reshape({p.tuple})", "int64")


def _random_integers(p: Plan) -> str:
    if p.library == "numpy":
        return p.cast(f"{p.generator}.integers({p.low}, {p.high + 1}, {p.tuple})", "int64")
    return p.cast(f"torch.randint({p.low}, {p.high + 1}, {p.tuple}, {p.generator})", "int64")


def _extremes(p: Plan) -> str:
    """Only the smallest and the largest allowed value."""
    where = "np.where" if p.library == "numpy" else "torch.where"
    return p.cast(f"{where}({_uniform(p)} < 0.5, {p.low}, {p.high})", "int64")


INTEGERS: Sequence[Code] = (_count_up, _random_integers, _extremes)

BOOLEANS: Sequence[Code] = (
    lambda p: f"np.ones({p.tuple}, dtype=bool)" if p.library == "numpy" else f"torch.ones({p.tuple}, dtype=torch.bool)",
    lambda p: f"{_uniform(p)} < 0.5",
    lambda p: f"{_uniform(p)} < 0.1",
    lambda p: (
        f"np.zeros({p.tuple}, dtype=bool)" if p.library == "numpy" else f"torch.zeros({p.tuple}, dtype=torch.bool)"
    ),
)


def empty(p: Plan) -> str:
    """A tensor without elements, or a rank-0 one that no row-wise kind can make."""
    if p.library == "numpy":
        return f"np.zeros({p.tuple}, dtype=np.{p.dtype})"
    return f"torch.zeros({p.tuple}, dtype=torch.{p.dtype})"


def scalar_kinds(kinds: Sequence[Code]) -> Sequence[Code]:
    """The kinds that a tensor without axes can have."""
    return NORMAL if kinds in (FLOATS, LOGITS) else kinds


def layouts(p: Plan) -> Sequence[Callable[[str], str]]:
    """Ways to lay out the same values in memory: as they are, then strided, transposed, with an offset.

    Memory between and around the values holds NaN (or -1), so that code which forgets the strides shows it.
    """
    choices: list[Callable[[str], str]] = [lambda code: code]
    if not p.shape or 0 in p.shape:
        return choices
    if p.library == "numpy":
        gap = "np.nan" if p.dtype.startswith("float") else "-1" if p.dtype.startswith("int") else "0"
        choices.append(lambda code: f"(lambda x: np.stack((x, np.full_like(x, {gap})), -1)[..., 0])({code})")
        if len(p.shape) > 1:
            choices.append(lambda code: f"np.asfortranarray({code})")
        return choices
    gap = 'float("nan")' if p.dtype.startswith(("float", "bfloat")) else "-1" if p.dtype.startswith("int") else "0"
    choices.append(lambda code: f"(lambda x: torch.stack((x, torch.full_like(x, {gap})), -1)[..., 0])({code})")
    if len(p.shape) > 1:
        choices.append(lambda code: f"(lambda x: x.mT.contiguous().mT)({code})")
    choices.append(
        lambda code: (
            f"(lambda x: torch.cat((x.new_full((3,), {gap}), x.flatten(), x.new_full((3,), {gap})))[3:-3]"
            f".view({p.tuple}))({code})"
        )
    )
    return choices
