"""Watch kernels run in Triton's interpreter.

    with record({"x": x}, filename=learners_file) as watch:
        y = softmax(x)
    watch.name_results({"result": y})
    evidence = watch.summary()          # plain data: see `Recorder.summary`

While the block is open every load, store, atomic and tl.dot passes through here. Lanes with a bad address are switched
off before they are dereferenced, so a wild pointer costs a sentence and not the process. With `hostile` the freedoms of
a GPU are used against the kernel (see `hostile`).

Needs TRITON_INTERPRET=1 in the environment before triton is first imported. bfloat16 is counted like any type, but the
interpreter computes it wrongly; inline assembly and libdevice calls do not run in it at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from grader.worker.kernels import hooks, hostile, repairs
from grader.worker.kernels.bounds import DESCRIPTOR_VERBS, VERBS, Faults, Place, named, nearest
from grader.worker.kernels.contents import Contents
from grader.worker.kernels.host_ops import HostTrace
from grader.worker.kernels.memory import TEMPORARY, Memory, MemoryMap, named_tensors, storage_of
from grader.worker.kernels.readouts import ReadoutTrace
from grader.worker.kernels.shape_of_access import SECTOR, layout
from grader.worker.kernels.simulated_gpu import stand_in
from grader.worker.kernels.tally import BATCH, Access, Race, Tally

Order = Literal["forward", "reverse", "random"]
Kind = Literal["load", "store", "atomic"]

MOST_ACCESSES = 20_000
"""Accesses listed one by one; sums are exact beyond."""


MOST_KEPT_CELLS = 1 << 22
"""Counts of single launches kept cell by cell (32 MiB); sums by storage are kept beyond."""


class KernelEvidenceUnavailable(RuntimeError):
    """This machine's Triton cannot be watched; says why."""


def prepare() -> None:
    """Make interpreted kernels run as they are on a machine without a GPU. Call before the learner's file is loaded.

    Triton has a driver to ask, an autotuned kernel runs with its first configuration instead of timing them all, and
    what `repairs` repairs works.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise KernelEvidenceUnavailable("kernel evidence needs TRITON_INTERPRET=1 before triton is imported")
    stand_in()
    repairs.repair_interpreter()


@dataclass(eq=False)
class Launch:
    """One kernel launch."""

    number: int
    kernel: str
    grid: tuple[int, int, int] = (0, 0, 0)
    tallies: dict[Memory, Tally] = field(default_factory=dict)
    passed: list[Memory] = field(default_factory=list)
    """The storages of the tensors that were passed to it."""
    order: npt.NDArray[np.int64] | None = None
    traffic: list[tuple[str, Memory, dict[str, int] | npt.NDArray[np.int64] | int]] = field(default_factory=list)
    """("loaded" or "stored", storage, what): cells by name, or cell by cell until the names are known, or in all."""
    atomics: int = 0
    ran: int = 0
    """Programs started so far."""

    @property
    def programs(self) -> int:
        x, y, z = self.grid
        return x * y * z


class Recorder:
    """Collects the evidence of one call. See `record`."""

    def __init__(self, *, filename: str | None, order: Order, hostile_memory: bool, seed: int, trace: bool) -> None:
        self.filename = filename
        self.order = order
        self.hostile = hostile_memory
        self.seed = seed
        self.tracing = trace
        self.memories = MemoryMap()
        self.contents = Contents(self.memories)
        self.names: list[str] = []
        self.launches: list[Launch] = []
        self.faults = Faults()
        self.races: list[tuple[str, Memory, Race]] = []
        self.largest_block: tuple[int, ...] = ()
        self.largest_size = 0
        self.dots: dict[tuple[int, int, int, int, str, str, str], int] = {}
        self.accesses: list[tuple[Any, ...]] = []
        self.accesses_cut = False
        self.unguarded: dict[int, int] = {}
        self.atomics: dict[Memory, int] = {}
        self.results: list[Memory] = []
        self.host = HostTrace(self.memories, self.contents, self._state, self.line)
        self.unstored: list[str] = []
        self.foreign_results: list[str] = []
        if hostile_memory:
            self.host.on_empty = hostile.spoil
        self._launch: Launch | None = None
        self._in_program = False
        self._program = 0
        self._synchronised = False
        self._waiting = 0
        self._kept_cells = 0

    # Names

    def name_arguments(self, arguments: Mapping[str, object]) -> None:
        """Make the wrapper's arguments known, each tensor under the expression that reaches it ("x", "kv[0]")."""
        for name, value in arguments.items():
            for expression, tensor in named_tensors(name, value):
                self.names.append(expression)
                if tensor.numel():
                    self.memories.name(expression, tensor)
        self.contents.begin()

    def name_results(self, results: Mapping[str, object]) -> None:
        """Name what the call returned. Tensors that live in an argument's storage keep the argument's name."""
        for name, value in results.items():
            for expression, tensor in named_tensors(name, value):
                self.names.append(expression)
                memory = self.memories.at(tensor)
                if memory is None:
                    if storage_of(tensor) is not None and self.contents.adopt(tensor) is None:
                        self.host.foreign(tensor)
                        self.foreign_results.append(expression)
                elif memory.made_in_call and memory.stores is None and tensor.numel():
                    self.unstored.append(expression)
                if memory is None or (memory.views and memory not in self.results) or not tensor.numel():
                    continue
                self.memories.name(expression, tensor)
                if memory not in self.results:
                    self.results.append(memory)

    # Launches: called by the hooks

    def begin_launch(self, kernel: str, tensors: list[Any]) -> Launch:
        launch = Launch(len(self.launches), kernel)
        for tensor in tensors:
            memory = self.memories.at(tensor)
            if memory is not None:
                self.contents.compare(memory)
            else:
                memory = self.contents.adopt(tensor) or self._foreign(tensor)
            if memory is not None and memory not in launch.passed:
                launch.passed.append(memory)
        self.launches.append(launch)
        self._launch = launch
        self._waiting = 0
        return launch

    def _foreign(self, tensor: torch.Tensor) -> Memory | None:
        memory = self.memories.add(tensor)
        if memory is not None:
            self.host.foreign(tensor)
            self.contents.remember(memory)
        return memory

    @contextmanager
    def outside_of_launch(self) -> Iterator[None]:
        """Inside of a launch the interpreter calls back the wrapper's own code, to learn the grid."""
        launch, self._launch = self._launch, None
        try:
            yield
        finally:
            self._launch = launch

    def set_grid(self, x: int, y: int, z: int) -> None:
        launch = self._launch
        if launch is not None:
            launch.grid = (int(x), int(y), int(z))
            launch.order = hostile.order_of_programs(self.order, launch.programs, self.seed, launch.number)

    def next_program(self, x: int, y: int, z: int) -> tuple[int, int, int]:
        """Which program to run where the interpreter would run (x, y, z)."""
        launch = self._launch
        if launch is None:
            return x, y, z
        if launch.order is not None:
            _, ny, nz = launch.grid
            position = int(launch.order[launch.ran])
            x, y, z = position // (ny * nz), position // nz % ny, position % nz
        launch.ran += 1
        self._program = x + launch.grid[0] * (y + launch.grid[1] * z)
        self._synchronised = False
        self._in_program = True
        return x, y, z

    def leave_programs(self) -> None:
        self._in_program = False

    def end_launch(self) -> None:
        launch, self._launch = self._launch, None
        self._in_program = False
        if launch is None:
            return
        for memory, tally in launch.tallies.items():
            tally.finish()
            self.races += [(launch.kernel, memory, race) for race in tally.races()]
            for kind, counted in (("loaded", tally.loads), ("stored", tally.stores)):
                if counted is not None:
                    launch.traffic.append((kind, memory, self._condensed(memory, counted)))
            if tally.stores is not None:
                self.contents.remember(memory)
        launch.tallies.clear()

    def _condensed(
        self, memory: Memory, counted: npt.NDArray[np.int64]
    ) -> dict[str, int] | npt.NDArray[np.int64] | int:
        """Counts of one launch in little space: a storage without a name may still turn out to hold several results."""
        if memory.views:
            return {name: cells * memory.grain for name, cells in memory.by_name(counted).items()}
        self._kept_cells += counted.size
        return counted if self._kept_cells < MOST_KEPT_CELLS else int(counted.sum()) * memory.grain

    # Accesses: called by the hooks

    def check(
        self, kind: Kind, addresses: npt.NDArray[np.uint64], lanes: npt.NDArray[np.bool_], itemsize: int, origin: Any,
        *, descriptor: bool = False, ordered: bool = False,
    ) -> npt.NDArray[np.bool_] | None:  # fmt: skip
        """Count an access. Returns None if every active lane may be dereferenced, else those that may."""
        launch = self._launch
        if launch is None:
            return None
        every = bool(lanes.all())
        active = addresses.reshape(-1) if every else addresses[lanes]
        if not active.size:
            return None
        low = int(active.min())
        high = int(active.max()) + itemsize
        memory = origin if isinstance(origin, Memory) else self._holding(launch, low, high)
        line = self.line()
        good: npt.NDArray[np.bool_] | None = None
        if memory is None or low < memory.base or high > memory.end:
            good = self._sort_out(launch, kind, active, itemsize, memory, line, descriptor, ordered)
            kept = np.zeros(addresses.shape, dtype=np.bool_)
            if every:
                kept[...] = good.reshape(addresses.shape)
            else:
                kept[lanes] = good
            return kept
        self._note(launch, kind, memory, active, itemsize, line, ordered)
        if self.tracing:
            self._trace(launch, kind, memory, addresses, None if every else lanes, active, itemsize, line)
        return None

    def _holding(self, launch: Launch, low: int, high: int) -> Memory | None:
        for memory in launch.passed:
            if memory.base <= low and high <= memory.end:
                return memory
        return self.memories.find(low, high)  # a table of pointers may lead to tensors that were not passed themselves

    def _sort_out(
        self, launch: Launch, kind: Kind, active: npt.NDArray[np.uint64], itemsize: int, origin: Memory | None,
        line: int, descriptor: bool, ordered: bool,
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Count the good lanes of an access that strays, report the others. Returns which are good."""
        good = np.zeros(active.size, dtype=np.bool_)
        for memory in [origin] if origin is not None else [*launch.passed, *self.memories]:
            inside = ~good & (active >= memory.base) & (active <= max(memory.end - itemsize, 0))
            if inside.any():
                self._note(launch, kind, memory, active[inside], itemsize, line, ordered)
                good |= inside
        bad = active[~good]
        if not bad.size:  # one access to several tensors, as after a select between pointers
            return good
        verb = (DESCRIPTOR_VERBS if descriptor else VERBS)[kind]
        near = origin or nearest(int(bad.min()), int(bad.max()) + itemsize, launch.passed)
        if near is None:
            self.faults.add(Place(launch.kernel, line, verb, None, ""), int(bad.size), self._program)
            return good
        before = int(np.count_nonzero(bad < near.base))
        for side, lanes in (("before the start", before), ("past the end", int(bad.size) - before)):
            if lanes:
                self.faults.add(Place(launch.kernel, line, verb, near, side), lanes, self._program)
        return good

    def _note(
        self, launch: Launch, kind: Kind, memory: Memory, active: npt.NDArray[np.uint64], itemsize: int, line: int,
        ordered: bool,
    ) -> None:  # fmt: skip
        tally = launch.tallies.get(memory)
        if tally is None:
            tally = launch.tallies[memory] = Tally(memory, launch.programs)
        if itemsize < memory.grain:
            tally.refine(itemsize)
        offsets = (active - np.uint64(memory.base)).view(np.int64)
        access = Access(self._program, line, offsets, itemsize, ordered or self._synchronised)
        if kind == "load":
            tally.waiting_loads.append(access)
        elif kind == "store":
            tally.waiting_stores.append(access)
        else:
            tally.waiting_atomics.append(access)
            launch.atomics += offsets.size
            self.atomics[memory] = self.atomics.get(memory, 0) + offsets.size
        self._waiting += offsets.size
        if self._waiting > BATCH:
            self._waiting = 0
            for waiting in launch.tallies.values():
                waiting.absorb()

    def _trace(
        self, launch: Launch, kind: Kind, memory: Memory, addresses: npt.NDArray[np.uint64],
        lanes: npt.NDArray[np.bool_] | None, active: npt.NDArray[np.uint64], itemsize: int, line: int,
    ) -> None:  # fmt: skip
        if len(self.accesses) >= MOST_ACCESSES:
            self.accesses_cut = True
            return
        lies = layout(addresses, lanes, itemsize)
        self.accesses.append(
            (launch.number, self._program, kind, memory, addresses.shape, lies.run, lies.axis,
             int(active[0]) - memory.base, active.size, itemsize, line, lies.sectors)
        )  # fmt: skip

    def synchronise(self) -> None:
        """The program used an atomic that orders memory: what it reads from here on may come from other programs."""
        self._synchronised = True

    def undefined_lanes(self, lanes: int) -> None:
        """A masked load without `other` had lanes that are undefined on a GPU."""
        line = self.line()
        self.unguarded[line] = self.unguarded.get(line, 0) + lanes

    def block(self, shape: tuple[int, ...], size: int) -> None:
        self.largest_size = size
        self.largest_block = shape

    def dot(self, a: Any, b: Any, accumulator: Any) -> None:
        batch = int(np.prod(a.data.shape[:-2]))
        m, k = a.data.shape[-2:]
        key = (batch, m, b.data.shape[-1], k, str(a.dtype.scalar), str(b.dtype.scalar), str(accumulator.dtype.scalar))
        self.dots[key] = self.dots.get(key, 0) + 1

    def scaled_dot(self, a: Any, b: Any, out: Any) -> None:
        """tl.dot_scaled: a packed operand is narrower than the product is deep, so k is read off the wider one."""
        m, n = out.data.shape[-2:]
        depth = max(a.data.shape[-1], b.data.shape[-2])
        key = (int(np.prod(out.data.shape[:-2])), m, n, depth, str(a.dtype.scalar), str(b.dtype.scalar), "fp32")
        self.dots[key] = self.dots.get(key, 0) + 1

    # Where we are

    def _state(self) -> str:
        if self._launch is None:
            return "host"
        return "kernel" if self._in_program else "launch"

    def line(self) -> int:
        """The line of the learner's file that is running, 0 if none is."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name == self.filename or (self.filename is None and not _is_machinery(name)):
                return frame.f_lineno
            frame = frame.f_back
        return 0

    # Results

    def summary(self) -> dict[str, Any]:
        """All evidence as plain data (dicts, lists, strings, numbers).

        triton, order, hostile, names (of arguments and results);
        launches [{kernel, grid, programs, loaded, stored, atomics}];
        loaded, stored, unique_loaded, unique_stored (bytes) and atomics (lanes) by name: an argument's, "result",
        "result[0]", ... or "temporary";
        largest_block (shape); dots [[batch, m, n, k, type of a, type of b, type of the accumulator, how often]];
        accesses {rows, cut}, a row being [launch, program, kind, name, shape, run, axis, first element, elements,
        itemsize, line, sectors, ideal sectors];
        unguarded [[line, lanes]]; out_of_bounds, races, never_written, host_writes (sentences);
        unstored (names of results that no launch stored to);
        host_ops [[name, numel, kind, line, sources]].
        """
        import triton

        sums: dict[str, dict[str, int]] = {"loaded": {}, "stored": {}, "unique_loaded": {}, "unique_stored": {}}
        for memory in self.memories:
            for kind, counted in (("loaded", memory.loads), ("stored", memory.stores)):
                if counted is not None:
                    _add(sums[kind], memory.by_name(counted), memory.grain)
                    _add(sums[f"unique_{kind}"], memory.by_name((counted > 0).astype(np.int64)), memory.grain)
        return {
            "triton": str(triton.__version__),
            "order": self.order,
            "hostile": self.hostile,
            "names": self.names,
            "launches": [_launch_summary(launch) for launch in self.launches],
            **sums,
            "atomics": self._atomics(),
            "largest_block": [int(n) for n in self.largest_block],
            "dots": [[*key[:4], *key[4:], times] for key, times in self.dots.items()],
            "accesses": {"rows": self._rows(), "cut": self.accesses_cut},
            "unguarded": [[line, lanes] for line, lanes in sorted(self.unguarded.items())],
            "out_of_bounds": self.faults.sentences(),
            "races": [_race_sentence(kernel, memory, race) for kernel, memory, race in self.races],
            "never_written": self._never_written(),
            "host_writes": self._host_writes(),
            "unstored": [*self.unstored, *self.foreign_results],
            "host_ops": [[op.name, op.numel, op.kind, op.line, list(op.sources)] for op in self.host.ops],
        }

    def _atomics(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for memory, lanes in self.atomics.items():
            _add(sums, {memory.label(): lanes}, 1)
        return sums

    def _rows(self) -> list[list[Any]]:
        owners = {memory: memory.owners() for memory in self.memories if len(memory.views) > 1}
        rows = []
        for launch, program, kind, memory, shape, run, axis, first, lanes, itemsize, line, sectors in self.accesses:
            view = memory.views[0] if memory.views else None
            owner = owners.get(memory)
            if owner is not None:
                position = int(owner[first // memory.grain])
                view = memory.views[position] if position >= 0 else None
            element = (first - (view.offset if view else 0)) // itemsize
            ideal = -(-lanes * itemsize // SECTOR)
            rows.append(
                [launch, program, kind, view.name if view else TEMPORARY, list(shape), run, axis, element, lanes,
                 itemsize, line, sectors, ideal]
            )  # fmt: skip
        return rows

    def _host_writes(self) -> list[str]:
        said = [
            f"{named(memory)} was changed by host code: it holds what neither a kernel nor a torch operation wrote"
            for memory in self.contents.changed
        ]
        if self.launches:
            said += [
                f"`{name}` is memory of the host's (as torch.frombuffer takes it): no kernel stored it"
                for name in self.foreign_results
            ]
        return list(dict.fromkeys(said))

    def _never_written(self) -> list[str]:
        said = []
        for memory in self.results:
            if not memory.empty:
                continue
            for view in memory.views:
                cells = view.cells(memory.grain)
                missing = np.ones(cells.size, np.bool_) if memory.stores is None else memory.stores[cells] == 0
                elements = int(np.count_nonzero(missing)) * memory.grain // view.itemsize
                if elements:
                    first = view.index_of(int(cells[int(np.argmax(missing))]), memory.grain) or ()
                    total = cells.size * memory.grain // view.itemsize
                    said.append(
                        f"{elements:,} of {total:,} elements of `{view.name}` were never written"
                        + (f" (the first is {view.says(first)})" if first else "")
                    )
        return said


@contextmanager
def record(
    arguments: Mapping[str, object],
    *,
    filename: str | None = None,
    order: Order = "forward",
    hostile: bool = False,
    seed: int = 0,
    trace: bool = True,
) -> Iterator[Recorder]:
    """Watch all launches inside the block.

    arguments: the wrapper's arguments by name; tensors are found in lists, dicts, dataclasses and modules too.
    filename: the learner's file, for line numbers (None: the first file that is neither Triton's nor ours).
    order: of the programs of a launch; "random" is drawn from `seed`.
    hostile: NaN in lanes masked off without `other`, and in memory from torch.empty.
    trace: list each access with its layout (costs about a quarter more time).
    """
    prepare()
    recorder = Recorder(filename=filename, order=order, hostile_memory=hostile, seed=seed, trace=trace)
    recorder.name_arguments(arguments)
    with hooks.installed(recorder), recorder.host, ReadoutTrace(recorder.host.read_out):
        yield recorder
    recorder.contents.compare_all()


def _launch_summary(launch: Launch) -> dict[str, Any]:
    sums: dict[str, dict[str, int]] = {"loaded": {}, "stored": {}}
    for kind, memory, traffic in launch.traffic:
        if isinstance(traffic, dict):
            _add(sums[kind], traffic, 1)
        elif isinstance(traffic, int):
            _add(sums[kind], {memory.label(): traffic}, 1)
        else:
            # Cells may have become smaller since: then the storage has had its names put together.
            exact = traffic.size == memory.size
            by_name = memory.by_name(traffic) if exact else {memory.label(): int(traffic.sum())}
            _add(sums[kind], by_name, memory.grain if exact else -(-memory.nbytes // traffic.size))
    return {
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "programs": launch.programs,
        **sums,
        "atomics": launch.atomics,
    }


def _race_sentence(kernel: str, memory: Memory, race: Race) -> str:
    more = f" (and {race.cells - 1:,} more elements)" if race.cells > 1 else ""
    where = f"{memory.describe(race.cell)}{more}"
    if race.other_reads:
        return (
            f"line {race.other_line}: program {race.other} of {kernel} reads {where}, which program {race.writer} "
            f"stores in the same launch (line {race.line}): on a GPU either may come first"
        )
    return (
        f"line {race.line}: programs {race.writer} and {race.other} of {kernel} both store to {where}: "
        "on a GPU either may come last"
    )


def _add(sums: dict[str, int], more: Mapping[str, int], factor: int) -> None:
    for name, count in more.items():
        sums[name] = sums.get(name, 0) + count * factor


def _is_machinery(filename: str) -> bool:
    parts = filename.replace("\\", "/")
    return any(
        part in parts for part in ("/triton/", "/torch/", "/numpy/", "/grader/worker/kernels/", "/contextlib.py")
    ) or parts.startswith("<")
