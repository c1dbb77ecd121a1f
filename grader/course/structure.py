"""The words of the course as plain records: part, chapter, exercise, track."""

from __future__ import annotations

from dataclasses import dataclass, field

KINDS = ("python", "numpy", "torch", "triton", "cuda")
LEVELS = ("intro", "core", "advanced")


@dataclass(frozen=True)
class Limits:
    """What the submission of one exercise may use."""

    check_seconds: float = 10.0
    exercise_seconds: float = 60.0
    memory_mib: int = 4096
    processes: int = 0
    """Processes that the submission may start itself."""
    output_kib: int = 64
    """Printed output that is kept, per check."""


@dataclass(frozen=True)
class Exercise:
    """One file to edit."""

    id: str
    """The chapter and the slug, such as "4.2/online_softmax"."""
    slug: str
    title: str
    kind: str
    """One of KINDS: the libraries it is written with."""
    minutes: int
    """For a prepared learner."""
    points: float
    chapter: str
    folder: str
    """Relative to exercises/ and solutions/, with forward slashes: "04_kernels/02_flash_attention_1"."""
    forbid: tuple[str, ...]
    """Functions that the submission may not call, such as "torch.softmax"."""
    hints: tuple[str, ...]
    """Three: a nudge, the approach, nearly the code."""
    mistakes: dict[str, str] = field(hash=False)
    """Wrong programs that people write, by name, each with its diagnosis."""
    gpu: tuple[dict[str, str], ...] = field(hash=False)
    """For kernels: what is timed where there is a GPU, as a shape and a target."""
    limits: Limits

    @property
    def file(self) -> str:
        """The exercise's file relative to exercises/ and solutions/."""
        return f"{self.folder}/{self.slug}.py"


@dataclass(frozen=True)
class Chapter:
    """A chapter as tracks.yaml lists it, built or not."""

    id: str
    """Such as "4.2"."""
    number: int
    """Within its part."""
    part: int
    slug: str
    title: str
    prereqs: tuple[str, ...]
    folder: str
    """Relative to exercises/, solutions/ and tests/chapters/: "04_kernels/02_flash_attention_1"."""
    built: bool
    """Whether it has exercises (its chapter.yaml is there)."""


@dataclass(frozen=True)
class Part:
    """One of the 14 parts."""

    number: int
    title: str
    slug: str
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True)
class Track:
    """A named way through the course for one goal."""

    key: str
    title: str
    about: str
    chapters: tuple[str, ...]
    """Chapter ids in the order to take them."""


@dataclass(frozen=True)
class ChapterPage:
    """What a built chapter says about itself (its chapter.yaml)."""

    id: str
    title: str
    level: str
    outcome: str
    """What the learner can do afterwards."""
    prereqs: tuple[str, ...]
    sources: tuple[str, ...]
    exercises: tuple[Exercise, ...]
    """In the order they are solved."""
