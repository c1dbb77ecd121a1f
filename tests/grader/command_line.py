"""Driving `grade` in tests: a small course, a workspace, a judge that answers from a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader.cli.run import run
from grader.course import Exercise
from grader.report import Check, Cost, Mistake, Outcome, Report

PASSED = Check(
    "worked_example",
    "The example of the page.",
    Outcome.PASSED,
    4,
    4,
    costs=(Cost("largest temporary", 512, 1024, why="two blocks per row"),),
)
FAILED = Check(
    "any_offset",
    "Scores around 1e4 are no harder than those around 0.",
    Outcome.FAILED,
    0,
    6,
    message="12 of 40 elements are wrong",
    call="submission.dot(np.array([1.0, 2.0]))",
    got="4.0",
    expected="3.0",
    where="at (0, 3): error 1.0, tolerance 1e-6",
    mistakes=(Mistake("off_by_one", "Starts at one."),),
    output="hello\n",
)


@dataclass
class Script:
    """What the judge says, by exercise id; an exercise that is not listed passes."""

    checks: dict[str, Sequence[Check]] = field(default_factory=dict)
    during: Callable[[str], None] = lambda exercise_id: None
    """Called when an exercise has begun."""
    asked: list[dict[str, Any]] = field(default_factory=list)


def scripted(script: Script) -> ModuleType:
    """A stand-in for grader.judge."""

    class Judge:
        def __init__(self, course: object, **options: object) -> None:
            self.options = options

        def __enter__(self) -> Judge:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def grade(
            self, exercise: Exercise, path: Path, *, seed: int | None, on_check: Any, on_start: Any, **rest: Any
        ) -> Report:
            script.asked.append({"exercise": exercise.id, "path": path, "seed": seed, **rest, **self.options})
            checks = script.checks.get(exercise.id, (PASSED, replace(PASSED, name="any_offset", points=6, possible=6)))
            for check in checks:
                on_start(check.name)
                script.during(exercise.id)
                on_check(check)
            return Report(
                exercise.id, exercise.title, exercise.kind, str(path), tuple(checks), seed or 7, "process", 1.5
            )

    module = ModuleType("grader.judge")
    module.Judge = Judge  # type: ignore[attr-defined]
    return module


@dataclass
class Said:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON document."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass
class Desk:
    """A learner's desk: run commands at it."""

    root: Path
    state: Path
    script: Script
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def grade(self, *arguments: str, answer: str = "") -> Said:
        """Run `grade` with these arguments in this process; `answer` is typed."""
        import io

        self.capture.readouterr()
        self.patch.setattr(sys, "stdin", io.StringIO(answer))
        code = run(arguments)
        said = self.capture.readouterr()
        return Said(code, said.out, said.err)

    def file(self, name: str) -> Path:
        """A learner's file."""
        return self.root / "exercises" / name
