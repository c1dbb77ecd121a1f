"""What one launch did to one storage: how often each cell was read and written, and by which programs.

Accesses are noted as they happen and worked up in batches, with a handful of numpy passes per batch, so that counting
costs little next to the interpreter itself.

Programs of a launch run at the same time on a GPU. Two of them storing to one cell, or one reading what another stores,
is a race whatever the interpreter's order made of it. Since one program runs after the other here, it is enough to
remember for each cell the first and the last program that stored to it, and that read it: they differ if and only if
there were two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from grader.worker.kernels.memory import Memory

Offsets = npt.NDArray[np.int64]

BATCH = 1 << 21
"""Lanes that may wait before they are worked up (16 MiB of offsets)."""


@dataclass(frozen=True)
class Access:
    """The active lanes of one load, store or atomic."""

    program: int
    line: int
    offsets: Offsets
    """Bytes from the start of the storage, one per lane."""
    itemsize: int
    ordered: bool
    """The program had synchronised by an atomic before, so it may rely on what others wrote: not a race."""


class Programs:
    """For each cell the first and the last program that touched it, and the line of the last access; -1 for none."""

    def __init__(self, cells: int) -> None:
        self.first = np.full(cells, -1, dtype=np.int32)
        self.last = np.full(cells, -1, dtype=np.int32)
        self.line = np.full(cells, -1, dtype=np.int32)

    def note(self, cells: Offsets, program: npt.NDArray[np.int32], line: npt.NDArray[np.int32]) -> None:
        # Of repeated indices numpy keeps the value assigned last: forwards for `last`, backwards for `first`.
        new = self.first[cells] < 0
        self.first[cells[new][::-1]] = program[new][::-1]
        self.last[cells] = program
        self.line[cells] = line


@dataclass(frozen=True)
class Race:
    """Two programs of one launch that touched one cell, at least one of them storing."""

    cell: int
    cells: int
    """How many cells share this fault."""
    writer: int
    other: int
    other_reads: bool
    line: int
    other_line: int


@dataclass(eq=False)
class Tally:
    """The accesses of one launch to one storage."""

    memory: Memory
    programs: int
    waiting_loads: list[Access] = field(default_factory=list)
    waiting_stores: list[Access] = field(default_factory=list)
    waiting_atomics: list[Access] = field(default_factory=list)
    loads: Offsets | None = None
    stores: Offsets | None = None
    readers: Programs | None = None
    writers: Programs | None = None

    def refine(self, grain: int) -> None:
        """Go over to smaller cells. Programs noted so far are dropped: mixed element sizes in one launch are rare."""
        self.absorb()
        ratio = self.memory.grain // grain
        self.memory.refine(grain)
        self.loads = None if self.loads is None else np.repeat(self.loads, ratio)
        self.stores = None if self.stores is None else np.repeat(self.stores, ratio)
        self.readers = self.writers = None

    def absorb(self, last: bool = False) -> None:
        """Work up what is waiting. `last` says that the launch is over."""
        writes = self.waiting_stores or self.writers is not None
        stores, self.waiting_stores = self.waiting_stores, []
        loads, self.waiting_loads = self.waiting_loads, []
        atomics, self.waiting_atomics = self.waiting_atomics, []
        if stores:
            self.stores = self._count(self.stores, stores)
            if self.programs > 1:
                self.writers = self._note(self.writers, stores)
        if loads:
            self.loads = self._count(self.loads, loads)
            # Readers matter only where somebody writes: most tensors are read-only and cost nothing here.
            if self.programs > 1 and (writes or not last):
                self.readers = self._note(self.readers, loads)
        if atomics:
            self.stores = self._count(self.stores, atomics)

    def finish(self) -> None:
        """Add this launch's counts to the storage's."""
        self.absorb(last=True)
        if self.loads is not None:
            self.memory.count("loads", self.loads)
        if self.stores is not None:
            self.memory.count("stores", self.stores)

    def races(self) -> list[Race]:
        """At most one race of each kind, with the number of cells concerned."""
        found: list[Race] = []
        w, r = self.writers, self.readers
        if w is None:
            return found
        written = w.first >= 0
        both = np.flatnonzero(written & (w.first != w.last))
        if both.size:
            cell = int(both[0])
            line = int(w.line[cell])
            found.append(Race(cell, int(both.size), int(w.first[cell]), int(w.last[cell]), False, line, line))
        if r is None:
            return found
        read = written & (r.first >= 0)
        foreign = np.flatnonzero(read & ((r.first != w.first) | (r.last != w.first) | (w.last != w.first)))
        # A cell with two writers is reported as such; do not report it again because its writers read it too.
        foreign = foreign[~np.isin(foreign, both)] if both.size else foreign
        if foreign.size:
            cell = int(foreign[0])
            writer = int(w.first[cell])
            reader = int(r.first[cell] if r.first[cell] != writer else r.last[cell])
            found.append(Race(cell, int(foreign.size), writer, reader, True, int(w.line[cell]), int(r.line[cell])))
        return found

    def _cells(self, accesses: list[Access]) -> tuple[Offsets, npt.NDArray[np.int64]]:
        """The cells of all lanes, and how many belong to each access."""
        grain = self.memory.grain
        pieces = []
        for access in accesses:
            if access.itemsize == grain:
                pieces.append(access.offsets)
            else:
                parts = np.arange(0, access.itemsize, grain, dtype=np.int64)
                pieces.append((access.offsets[:, None] + parts).reshape(-1))
        lengths = np.array([piece.size for piece in pieces], dtype=np.int64)
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        shift = grain.bit_length() - 1
        return (joined >> shift if shift else joined), lengths

    def _count(self, counted: Offsets | None, accesses: list[Access]) -> Offsets:
        cells, _ = self._cells(accesses)
        per_cell = np.bincount(cells, minlength=self.memory.size)
        return per_cell if counted is None else counted + per_cell

    def _note(self, noted: Programs | None, accesses: list[Access]) -> Programs | None:
        accesses = [access for access in accesses if not access.ordered]
        if not accesses:
            return noted
        cells, lengths = self._cells(accesses)
        noted = noted or Programs(self.memory.size)
        program = np.repeat(np.array([access.program for access in accesses], dtype=np.int32), lengths)
        line = np.repeat(np.array([access.line for access in accesses], dtype=np.int32), lengths)
        noted.note(cells, program, line)
        return noted
