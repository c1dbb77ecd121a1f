"""Evidence about Triton kernels: what their launches moved, where they strayed, what the compiler makes of them.

>>> with interpreted(submission) as run:
...     y = submission.softmax(x)
>>> run.cost("loaded", "x").exactly(x.numel() * x.element_size(), "x is read once")
>>> run.launches[0].programs, run.largest_block
(64, 256)

Nothing here needs a GPU: kernels run in Triton's interpreter, or are compiled for one that is not there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from grader.testing.failure import CheckFailed

if TYPE_CHECKING:
    from grader.testing.costs import Cost

_TRAFFIC = {
    "loaded": "bytes loaded",
    "stored": "bytes stored",
    "unique_loaded": "bytes of distinct elements loaded",
    "unique_stored": "bytes of distinct elements stored",
}
_COUNTS = {
    "launches": "kernel launches",
    "programs": "programs",
    "largest_block": "elements of the largest block",
    "dots": "tl.dot calls",
    "dot_flops": "FLOPs of tl.dot",
    "atomics": "elements changed by atomics",
}
HARMLESS = frozenset({"allocation", "view", "fill"})
"""What a wrapper may do besides launching."""


class _Measurement(Protocol):
    results: list[dict[str, Any]]


class _Submission(Protocol):
    def measure(self, probes: dict[str, dict[str, Any]]) -> AbstractContextManager[_Measurement]: ...

    def compile(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `loaded` and `stored` are bytes by the name of the tensor."""

    kernel: str
    grid: tuple[int, ...]
    programs: int
    loaded: Mapping[str, int]
    stored: Mapping[str, int]
    atomics: int


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of a block by one program."""

    launch: int
    """Position in `run.launches`."""
    kernel: str
    program: int
    """The program's number in its launch; in a grid of more than one dimension x counts fastest."""
    kind: Literal["load", "store", "atomic"]
    name: str
    """The tensor: an argument of the wrapper, "result", "result[0]", ... or "temporary"."""
    shape: tuple[int, ...]
    longest_run: int
    """The most elements in a row, along one axis of the block, that are neighbours in memory."""
    axis: int
    """The axis of the longest run."""
    first: int
    """Where the first active lane lies: elements from the tensor's first element, in memory."""
    elements: int
    """Active lanes."""
    itemsize: int
    line: int
    sectors: int
    """Sectors of 32 bytes that the access touches ..."""
    ideal_sectors: int
    """... and how few could have held as many bytes."""


@dataclass(frozen=True)
class Dot:
    """All tl.dot calls of one kind: (m, k) times (k, n), `batch` at once, `times` over."""

    batch: int
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    times: int

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k * self.times


@dataclass(frozen=True)
class Violations:
    """Sentences for the learner, each with the line of the fault."""

    out_of_bounds: tuple[str, ...] = ()
    """Lanes outside of the tensor that their pointer belongs to. They were switched off."""
    races: tuple[str, ...] = ()
    """Elements that two programs of a launch store, or that one reads and another stores."""
    never_written: tuple[str, ...] = ()
    """Elements of a result from torch.empty that no kernel stored to."""
    host_writes: tuple[str, ...] = ()
    """Memory that host code wrote by another way than torch, as through `.numpy()`: no GPU's memory can be."""

    def __iter__(self) -> Iterator[str]:
        yield from (*self.out_of_bounds, *self.races, *self.never_written, *self.host_writes)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class HostOp:
    """A torch operation of the wrapper outside of its launches (kind "inside": in the body of a kernel), or a tensor
    that it took to the host or from there."""

    name: str
    numel: int
    kind: str
    line: int
    sources: tuple[str, ...]

    def __str__(self) -> str:
        of = f" on {' and '.join(f'`{source}`' for source in self.sources)}" if self.sources else ""
        makes = f", {self.numel:,} new elements" if self.numel else ""
        return f"line {self.line}: {self.name}{of}{makes}"


class KernelRun:
    """What all launches inside an `interpreted` block did. Filled when the block ends.

    Bytes are named after the tensors that the wrapper was given ("x", "kv[0]", "state.m") or returned ("result",
    "result[1]"); "temporary" is everything that it made on the way. A name stands for all tensors inside it: with a
    tuple returned, "result" is the sum of "result[0]", "result[1]", ... . Where two arguments are one tensor, the first
    name has it. Without a name: everything.
    """

    def __init__(self) -> None:
        self._summaries: list[Mapping[str, Any]] | None = None

    def fill(self, summaries: Iterable[Mapping[str, Any]]) -> None:
        """Take the evidence of the block's calls, one summary each (see `grader.worker.kernels.interpret`)."""
        self._summaries = list(summaries)

    @property
    def summaries(self) -> list[Mapping[str, Any]]:
        if self._summaries is None:
            raise RuntimeError("the evidence about kernels is there after the `with interpreted(...)` block")
        return self._summaries

    @cached_property
    def launches(self) -> list[Launch]:
        """In order. >>> [launch.kernel for launch in run.launches]"""
        return [
            Launch(
                launch["kernel"], tuple(launch["grid"]), launch["programs"], launch["loaded"], launch["stored"],
                launch["atomics"],
            )
            for summary in self.summaries
            for launch in summary["launches"]
        ]  # fmt: skip

    @property
    def programs(self) -> int:
        """Of all launches together."""
        return sum(launch.programs for launch in self.launches)

    def loaded(self, name: str | None = None) -> int:
        """Bytes that kernels loaded, every time counted. >>> run.loaded("x")"""
        return self._sum("loaded", name)

    def stored(self, name: str | None = None) -> int:
        """Bytes that kernels stored, every time counted; atomics too. >>> run.stored("result")"""
        return self._sum("stored", name)

    def unique_loaded(self, name: str | None = None) -> int:
        """Bytes of the distinct elements that were loaded: what is left of `loaded` without re-reads."""
        return self._sum("unique_loaded", name)

    def unique_stored(self, name: str | None = None) -> int:
        """Bytes of the distinct elements that were stored to."""
        return self._sum("unique_stored", name)

    @property
    def atomics(self) -> int:
        """Elements changed by atomic operations."""
        return self._sum("atomics", None)

    @property
    def largest_block(self) -> int:
        """Elements of the largest block that any program held."""
        sizes = [_product(summary["largest_block"]) for summary in self.summaries if summary["largest_block"]]
        return max(sizes, default=0)

    @cached_property
    def dot_list(self) -> list[Dot]:
        """The tl.dot calls by shape and type. >>> {dot.a for dot in run.dot_list}"""
        return [Dot(*row) for summary in self.summaries for row in summary["dots"]]

    @property
    def dots(self) -> int:
        """Number of tl.dot calls."""
        return sum(dot.times for dot in self.dot_list)

    @property
    def dot_flops(self) -> int:
        """Multiplications and additions of all tl.dot calls, masked lanes included: 2 m n k each."""
        return sum(dot.flops for dot in self.dot_list)

    @cached_property
    def accesses(self) -> list[Access]:
        """Every block access that had an active lane, as they happened.

        >>> all(a.longest_run >= 32 for a in run.accesses if a.kind == "store")
        """
        listed, before = [], 0
        for summary in self.summaries:
            if summary["accesses"]["cut"]:
                raise RuntimeError("too many accesses to list them one by one; check this on a smaller size")
            kernels = [launch["kernel"] for launch in summary["launches"]]
            for launch, program, kind, name, shape, *rest in summary["accesses"]["rows"]:
                listed.append(
                    Access(before + launch, kernels[launch], program, kind, name, tuple(shape), *rest)
                )  # fmt: skip
            before += len(kernels)
        return listed

    @cached_property
    def unguarded(self) -> dict[int, int]:
        """Lanes that a load masked off without giving `other`, by line: undefined on a GPU, and no fault until used."""
        lanes: dict[int, int] = {}
        for summary in self.summaries:
            for line, count in summary["unguarded"]:
                lanes[line] = lanes.get(line, 0) + count
        return lanes

    @cached_property
    def violations(self) -> Violations:
        """>>> run.violations.never_written"""
        kinds = ("out_of_bounds", "races", "never_written", "host_writes")
        return Violations(*(tuple(_distinct(s for each in self.summaries for s in each[kind])) for kind in kinds))

    @cached_property
    def unstored(self) -> list[str]:
        """Results that no launch stored to, by name: neither an argument nor a tensor from before the call."""
        return _distinct(name for summary in self.summaries for name in summary["unstored"])

    @cached_property
    def host_ops(self) -> list[HostOp]:
        """Torch operations outside of launches, in order."""
        return [
            HostOp(name, numel, kind, line, tuple(sources))
            for summary in self.summaries
            for name, numel, kind, line, sources in summary["host_ops"]
        ]

    def cost(self, kind: str, name: str | None = None) -> Cost:
        """A count to be limited: loaded, stored, unique_loaded, unique_stored (each also by tensor), launches,
        programs, largest_block, dots, dot_flops, atomics. Where no kernel was launched, all but launches fail.

        >>> run.cost("loaded", "x").at_most(2 * 4 * n, "a wide row is read twice")
        """
        if kind != "launches" and not self.launches:
            raise CheckFailed("no kernel was launched", aspect="no launch")
        if name is None and kind == "launches":
            words, value = _COUNTS[kind], len(self.launches)
        elif name is None and kind in _COUNTS:
            words, value = _COUNTS[kind], getattr(self, kind)
        elif kind in _TRAFFIC:
            of = "" if name is None else f" {'to' if 'stored' in kind else 'from'} {name}"
            words, value = _TRAFFIC[kind] + of, getattr(self, kind)(name)
        else:
            of = "" if name is None else " of one tensor"
            raise ValueError(f"no cost {kind!r}{of}; there are {', '.join([*_TRAFFIC, *_COUNTS])}")
        from grader.testing.costs import Cost

        return Cost(words, value)

    def _sum(self, kind: str, name: str | None) -> int:
        if name is not None and name not in ("result", "temporary"):
            known = [known for summary in self.summaries for known in summary["names"]]
            if not any(_inside(k, name) for k in known):
                raise ValueError(f"no tensor {name!r}; there are {', '.join(_distinct(known)) or 'none'}")
        return sum(
            count
            for summary in self.summaries
            for tensors, count in summary[kind].items()
            if name is None or any(_inside(tensor, name) for tensor in tensors.split(" and "))
        )


@contextmanager
def interpreted(
    submission: _Submission,
    hostile: bool | Literal["random"] = False,
    *,
    trace: bool = True,
    violations: Literal["fail", "report"] = "fail",
) -> Iterator[KernelRun]:
    """Watch the kernels that calls inside the block launch; read the `KernelRun` after it.

    hostile=True: programs run in reverse order, lanes masked off without `other` hold NaN or infinity (integers: a
    large number), and what torch.empty returns is filled with NaN. A right kernel gives the same results. "random": the
    same in a random order of programs.

    Addresses outside of the tensors, races between programs and memory that host code wrote by another way than torch
    fail the check by themselves; `violations="report"` leaves them to the test. `trace=False` saves time where
    `accesses` are not needed.

    >>> with interpreted(submission, hostile=True):
    ...     close(submission.softmax(x), x.double().softmax(-1))
    """
    order = {False: "forward", True: "reverse", "random": "random"}[hostile]
    options = {
        "order": order,
        "hostile": bool(hostile),
        "seed": random.getrandbits(31) if order == "random" else 0,
        "trace": trace,
    }
    run = KernelRun()
    measured: _Measurement | None = None
    try:
        with submission.measure({"kernels": options}) as measured:
            yield run
    except CheckFailed as failure:
        # A wrong value is the consequence, the stray address its reason: that comes first.
        run.fill(_kernel_summaries(measured))
        if violations == "fail":
            _raise_violations(run, failure)
        raise
    run.fill(_kernel_summaries(measured))
    if not run.summaries:
        raise RuntimeError("no call was made inside `with interpreted(...)`")
    if violations == "fail":
        _raise_violations(run, None)


def _kernel_summaries(measured: _Measurement | None) -> list[Mapping[str, Any]]:
    results = [] if measured is None else measured.results
    return [result["kernels"] for result in results if result.get("kernels")]


def _raise_violations(run: KernelRun, failure: CheckFailed | None) -> None:
    __tracebackhide__ = True
    found = run.violations
    said = [*found.out_of_bounds, *found.races, *found.host_writes]
    if not said:
        return
    raise CheckFailed(
        "\n".join(said[:5]),
        call=failure.call if failure else "",
        got=failure.got if failure else "",
        expected=failure.expected if failure else "",
        where=failure.where if failure else "",
        aspect="out of bounds" if found.out_of_bounds else "race" if found.races else "host write",
    ) from failure


def launches_only(run: KernelRun, *names: str) -> None:
    """Fail the check if the wrapper did anything but allocate, view, fill what it allocated, and launch.

    What it returns must have been stored by launches (or be an argument). `names` are arguments that launches must have
    loaded from where they lie; the message points a copy of one out first.

    >>> launches_only(run, "q", "k", "v")
    """
    __tracebackhide__ = True
    work = [op for op in run.host_ops if op.kind not in HARMLESS]
    if not work:
        _require_kernels_work(run, names)
        return
    work.sort(key=lambda op: not any(_inside(source, name) for source in op.sources for name in names))
    listed = "; ".join(_distinct(map(str, work))[:4])
    if work[0].kind == "inside":
        message = f"torch computes inside a kernel, which a GPU cannot do: {listed}"
    else:
        message = f"the wrapper should only allocate, view and launch, but it does more: {listed}"
    raise CheckFailed(message, aspect="work outside of kernels")


def _require_kernels_work(run: KernelRun, names: Iterable[str]) -> None:
    __tracebackhide__ = True
    if not run.launches:
        raise CheckFailed("no kernel was launched", aspect="no launch")
    if run.unstored:
        results = " and ".join(f"`{name}`" for name in run.unstored)
        raise CheckFailed(f"no kernel stored anything in {results}", aspect="work outside of kernels")
    for name in names:
        if not run.loaded(name):
            raise CheckFailed(f"no kernel loaded anything from `{name}`", aspect="work outside of kernels")


@dataclass(frozen=True)
class CompiledLaunch:
    """A launch as compiled for an H100 (sm_90)."""

    kernel: str
    grid: tuple[int, ...] = ()
    config: str = ""
    """The configuration, if the kernel is autotuned: each is compiled (up to eight)."""
    error: str = ""
    """Why the compiler refused, with the learner's line."""
    num_warps: int = 0
    num_stages: int = 0
    registers: int = 0
    """Per thread, at most 255."""
    spills: int = 0
    """Bytes of stack per thread: registers that did not fit and live in memory. An odd choice of num_warps can cause a
    few in a right kernel, so a test decides what is too many."""
    shared: int = 0
    """Bytes of shared memory per program; an H100 has 232448."""
    wgmma: bool = False
    """Uses Hopper's tensor cores to the full (`tl.dot` tiles of at least 64 rows, four warps)."""
    mma: bool = False
    """Uses tensor cores through the older mma instructions."""
    load_widths: tuple[int, ...] = ()
    """Bytes that a thread loads from global memory with one instruction, the distinct values: 16 is best."""
    store_widths: tuple[int, ...] = ()
    instructions: tuple[str, ...] = ()
    """The distinct PTX instructions."""

    def ptx_has(self, part: str) -> bool:
        """Whether an instruction contains this. >>> compiled[0].ptx_has("cp.async")"""
        return any(part in instruction for instruction in self.instructions)


def compiled_for_sm_90(submission: _Submission, name: str, *args: Any, **kwargs: Any) -> list[CompiledLaunch]:
    """The launches of one call, compiled for an H100 instead of run. What the compiler refuses fails the check.

    >>> compiled = compiled_for_sm_90(submission, "matmul", a, b, block=(128, 128, 64))
    >>> require(all(c.wgmma for c in compiled), "the tile is large enough for wgmma")
    """
    __tracebackhide__ = True
    compiled = [CompiledLaunch(**_frozen(launch)) for launch in submission.compile(name, args, kwargs)]
    refused = _distinct(f"{launch.kernel}: {launch.error}" for launch in compiled if launch.error)
    if refused:
        raise CheckFailed(
            "the kernel runs in the interpreter, but does not compile for a GPU (sm_90): " + "; ".join(refused[:3]),
            aspect="does not compile",
        )
    if not compiled:
        raise CheckFailed(f"{name} launched no kernel", aspect="no launch")
    return compiled


def _frozen(launch: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in launch.items()}


def _inside(tensor: str, name: str) -> bool:
    return tensor == name or tensor.startswith((f"{name}[", f"{name}."))


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
