"""The result of judging one exercise. Every output (console, JSON, JUnit, progress) is a view of a Report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a check. Only PASSED earns points."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A check that this one builds on did not pass, so it was not run."""
    NOT_MEASURED = "not measured"
    """This machine lacks what the check needs (a GPU, Triton); no points are lost."""
    ERROR = "error"
    """The check gave no verdict: time was up, the process died, or the check itself is at fault."""


@dataclass(frozen=True)
class Mistake:
    """A known wrong program that behaves as the submission did."""

    name: str
    diagnosis: str


@dataclass(frozen=True)
class Cost:
    """One counted piece of evidence: `value` may be at most (or exactly, or at least) `limit`."""

    name: str
    value: float
    limit: float | None = None
    relation: str = "at most"
    why: str = ""


@dataclass(frozen=True)
class Check:
    """The result of one hidden test."""

    name: str
    about: str
    outcome: Outcome
    points: float
    possible: float
    message: str = ""
    call: str = ""
    """The shrunk call, as Python that can be pasted."""
    got: str = ""
    expected: str = ""
    where: str = ""
    """The worst element, its index, its error and the tolerance."""
    traceback: str = ""
    """The learner's own lines only."""
    output: str = ""
    """What the submission printed during this check, cut to a sane length."""
    mistakes: tuple[Mistake, ...] = ()
    costs: tuple[Cost, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """The result of judging one exercise."""

    exercise: str
    """The id, such as "4.2/online_softmax"."""
    title: str
    kind: str
    path: str
    checks: tuple[Check, ...]
    seed: int
    isolation: str
    seconds: float = 0.0
    problem: str = ""
    """Why the submission could not be loaded at all (a syntax error, say); empty if it was loaded."""
    output: str = ""
    """What the submission printed while it was imported."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every check that could be measured passed, and at least one did."""
        measured = [c for c in self.checks if c.outcome is not Outcome.NOT_MEASURED]
        return not self.problem and bool(measured) and all(c.outcome is Outcome.PASSED for c in measured)

    @property
    def points(self) -> float:
        """Points earned."""
        return round(sum(c.points for c in self.checks), 6)

    @property
    def possible(self) -> float:
        """Points that could be earned on this machine: checks that were not measured do not count."""
        return round(sum(c.possible for c in self.checks if c.outcome is not Outcome.NOT_MEASURED), 6)
