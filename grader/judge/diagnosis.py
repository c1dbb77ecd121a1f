"""Naming the mistake: the failing call is replayed on each listed wrong program; one that behaves alike is named.

The replay is of the whole check on its shrunk example, in workers of their own. A mistake is named if it fails at the
same line of the test in the same way, and returned what the submission returned, while the reference solution returned
something else (or, where a cost failed, the same at the same cost). No match, no guess.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grader.course import Exercise
from grader.judge import checks, current
from grader.judge.collect import HiddenTest
from grader.judge.errors import SubmissionError
from grader.judge.likeness import alike
from grader.judge.session import Session
from grader.judge.submission import Submission
from grader.judge.wrong_programs import wrong_programs
from grader.report import Check, Mistake
from grader.testing import costs
from grader.testing.behaviours import recorded_behaviour
from grader.testing.failure import CheckFailed

if TYPE_CHECKING:
    from grader.judge.judge import Judge

SECONDS = 20.0
"""For all replays of one exercise, or twice a check's limit if that is more; what is not found by then is not named.
Starting the workers is not counted: how long that takes says how busy the machine is."""

REPLAY_SECONDS = 5.0
"""A mistake is given this long for a check, or as much as SLOWER says; never more than the check's own limit."""

SLOWER = 4.0
"""How many times longer than the solution a mistake may take. One that hangs must not use up the time of the others."""


@dataclass(frozen=True)
class Observation:
    """What a program did in a check."""

    error: Exception | None
    line: int
    outcomes: list[Any]
    costs: list[float]
    seconds: float


class Diagnosis:
    """Replays failing checks of one exercise. A context manager: it ends the workers that it started."""

    def __init__(self, judge: Judge, exercise: Exercise, seed: int, names: Sequence[str] = ()) -> None:
        self._judge = judge
        self._exercise = exercise
        self._seed = seed
        self._names = tuple(names) or tuple(exercise.mistakes)
        # Trusted programs, so no sandbox; but processes of their own, since a wrong program may hang or crash.
        self._home = judge.home("process")
        self._programs: dict[str, Submission] = {}
        self._limit = exercise.limits.check_seconds
        self._left = max(SECONDS, 2 * self._limit)
        self._named: dict[str, list[str]] = {}

    def __enter__(self) -> Diagnosis:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._programs.values():
            program.close()

    def name(self, test: HiddenTest, submission: Submission, failure: Exception) -> tuple[Mistake, ...]:
        """The listed mistakes that behave in this check as the submission did."""
        if not self._exercise.mistakes or self._left <= 0:
            return ()
        example = getattr(failure, "example", None) if test.is_property else None
        if test.is_property and example is None:
            return ()
        seen = self._observe(test, submission, example)
        if seen.error is None or type(seen.error) is not type(failure):
            return ()
        self._load()
        right = self._observe(test, self._programs[""], example)
        if right.error is not None:
            return ()
        names = []
        for name in self._names:
            if self._left <= 0:
                break
            allowed = max(REPLAY_SECONDS, SLOWER * right.seconds)
            other = self._observe(test, self._programs[name], example, allowed)
            if _same(seen, other, right):
                names.append(name)
        self._named[test.name] = names
        return tuple(Mistake(name, self._exercise.mistakes[name]) for name in names)

    def ranked(self, made: list[Check]) -> list[Check]:
        """Where several mistakes match a check, keeps those that explain most of the failed checks."""
        counts = Counter(name for names in self._named.values() for name in names)
        result = []
        for check in made:
            if len(check.mistakes) > 1:
                most = max(counts[mistake.name] for mistake in check.mistakes)
                check = replace(check, mistakes=tuple(m for m in check.mistakes if counts[m.name] == most))
            result.append(check)
        return result

    def _load(self) -> None:
        """Prepares every mistake by name, and the solution as ""; their workers start when they are first called."""
        if self._programs:
            return
        path = self._judge.course.solution_path(self._exercise)
        sources = {"": path.read_text(encoding="utf-8"), **wrong_programs(self._judge.course, self._exercise)}
        for name, source in sources.items():
            filename = str(path) if not name else f"/mistakes/{self._exercise.slug}/{name}.py"
            self._programs[name] = self._judge.submission(self._exercise, source, filename, self._home)

    def _observe(
        self,
        test: HiddenTest,
        submission: Submission,
        example: dict[str, Any] | None,
        allowed: float = float("inf"),
    ) -> Observation:
        error: Exception | None = None
        collected: list[Any] = []
        behaviours: list[Any] = []
        began = time.monotonic()
        try:
            session = submission.session  # starts the worker if there is none
            began = time.monotonic()
            session.allow(min(self._limit, allowed) * self._judge.patience)
            current.use(submission)
            with costs.collect() as collected, recorded_behaviour() as behaviours:
                checks.perform(test, submission, self._seed, example)
        except Exception as caught:
            error = caught
        present: Session | None = submission._session
        outcomes = [call.outcome for call in present.calls] if present is not None and present.alive else []
        outcomes = behaviours or outcomes
        values = [cost.value for cost in collected]
        with contextlib.suppress(Exception):
            values += [cost.value for cost in error.costs]  # type: ignore[union-attr]
        seconds = (time.monotonic() - began) / self._judge.patience
        self._left -= seconds
        return Observation(error, _line(error, test.file), outcomes, values, seconds)


def _same(seen: Observation, other: Observation, right: Observation) -> bool:
    if other.error is None or type(other.error) is not type(seen.error) or other.line != seen.line:
        return False
    if _nature(seen) != _nature(other):
        return False
    if len(seen.costs) != len(other.costs):
        return False
    if any(abs(a - b) > 0.02 * max(abs(a), abs(b)) for a, b in zip(seen.costs, other.costs, strict=True)):
        return False
    return alike(seen.outcomes, other.outcomes, right.outcomes)


def _nature(observation: Observation) -> str:
    """In what way it failed: the kind of exception, or the aspect that was wrong; of costs, numbers are compared."""
    if isinstance(observation.error, SubmissionError):
        return observation.error.kind
    if isinstance(observation.error, CheckFailed) and not observation.costs:
        return observation.error.aspect
    return ""


def _line(error: Exception | None, file: str) -> int:
    """The line of the test file in which it failed."""
    trace = error.__traceback__ if error is not None else None
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
