"""Addresses outside of every tensor, put into words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.worker.kernels.memory import TEMPORARY, Memory

VERBS = {"load": "tl.load reads", "store": "tl.store writes", "atomic": "an atomic changes"}
DESCRIPTOR_VERBS = {"load": "a descriptor load reads", "store": "a descriptor store writes"}


@dataclass(frozen=True)
class Place:
    """One kind of fault: all its lanes are reported in one sentence."""

    kernel: str
    line: int
    verb: str
    memory: Memory | None
    """The storage that the pointer comes from, or that lies nearest; None if none is near."""
    side: str
    """Where from there: "past the end", "before the start", or "" where there is no storage."""


@dataclass
class Faults:
    """Lanes that were switched off because their address was no good."""

    lanes: dict[Place, int] = field(default_factory=dict)
    programs: dict[Place, int] = field(default_factory=dict)
    """The first program that did it."""

    def add(self, place: Place, lanes: int, program: int) -> None:
        self.lanes[place] = self.lanes.get(place, 0) + lanes
        self.programs.setdefault(place, program)

    def sentences(self) -> list[str]:
        said = []
        for place, lanes in self.lanes.items():
            elements = f"{lanes:,} element{'' if lanes == 1 else 's'}"
            where = (
                f"{place.side} of {named(place.memory)}"
                if place.memory is not None
                else "at addresses that belong to no tensor"
            )
            program = self.programs[place]
            said.append(f"line {place.line}: {place.verb} {elements} {where} (first in program {program})")
        return said


def nearest(low: int, high: int, memories: Iterable[Memory]) -> Memory | None:
    """The storage nearest to the bytes from low to high, if one lies within 16 MiB."""
    best, best_gap = None, 1 << 24
    for memory in memories:
        gap = max(memory.base - high, low - memory.end, 0)
        if gap < best_gap:
            best, best_gap = memory, gap
    return best


def named(memory: Memory) -> str:
    """A storage as a sentence says it."""
    label = memory.label()
    return "a temporary tensor" if label == TEMPORARY else f"`{label}`"
