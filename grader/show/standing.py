"""How far a learner is with an exercise, and sums of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grader.course import Exercise


@dataclass(frozen=True)
class Standing:
    """The best attempt at one exercise."""

    passed: bool
    points: float
    possible: float


Standings = Mapping[str, Standing]
"""By exercise id; an exercise that was never tried is not there."""


@dataclass(frozen=True)
class Sum:
    """Exercises taken together."""

    exercises: int
    passed: int
    tried: int
    """Tried and not passed."""
    points: float
    possible: float

    @property
    def share(self) -> float:
        """The share of the points, 0 where there are none."""
        return self.points / self.possible if self.possible else 0.0


def total(exercises: Iterable[Exercise], standings: Standings) -> Sum:
    """The sum over some exercises. An exercise that was never tried counts with its full points as possible."""
    count = passed = tried = 0
    points = possible = 0.0
    for exercise in exercises:
        count += 1
        standing = standings.get(exercise.id)
        if standing is None:
            possible += exercise.points
            continue
        passed += standing.passed
        tried += not standing.passed
        points += standing.points
        possible += standing.possible
    return Sum(count, passed, tried, points, possible)
