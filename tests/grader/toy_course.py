"""A course of one toy exercise with real hidden tests, graded by a real judge: for what submissions may try."""

from __future__ import annotations

import textwrap
from pathlib import Path

from grader import course
from grader.judge import Judge
from grader.report import Check, Report

TESTS = '''
"""Hidden tests of a toy exercise."""

import itertools
import torch
from grader.testing import close, equal, fresh


def test_doubles(submission):
    """Doubles a tensor."""
    x = torch.arange(6.0).reshape(2, 3)
    y = submission.double(x)
    close(y, x.double() * 2)
    fresh(y)


def test_counts(submission):
    """Yields 0, 1, 2, ..., n - 1."""
    equal([int(i) for i in submission.count(3)], [0, 1, 2])
'''

SOLUTION = '''
"""A toy."""

from collections.abc import Iterator

from torch import Tensor


def double(x: Tensor) -> Tensor:
    """Twice x."""
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION


def count(n: int) -> Iterator[int]:
    """0, 1, ..., n - 1."""
    ### BEGIN SOLUTION
    yield from range(n)
    ### END SOLUTION
'''

COUNT = "\ndef count(n):\n    yield from range(n)\n"
DOUBLE = "\ndef double(x):\n    return x * 2\n"


def toy_course(root: Path, *, tests: str = TESTS, solution: str = SOLUTION) -> course.Course:
    """A course with one chapter of one exercise, below `root`."""
    for folder in ("exercises/01_toys/01_toy", "solutions/01_toys/01_toy", "tests/chapters/01_toys/01_toy/mistakes"):
        (root / folder).mkdir(parents=True)
    (root / "tracks.yaml").write_text(
        "parts:\n  - number: 1\n    title: Toys\n    slug: toys\n    chapters:\n"
        '      - {id: "1.1", slug: toy, title: Toy, prereqs: []}\ntracks: []\n'
    )
    (root / "exercises/01_toys/01_toy/chapter.yaml").write_text(
        textwrap.dedent("""
        id: "1.1"
        title: Toy
        level: intro
        outcome: "Double."
        prereqs: []
        sources: []
        exercises:
          - slug: toy
            title: Toy
            kind: torch
            minutes: 10
            points: 10
            forbid: ["torch.softmax"]
            limits: {check_seconds: 2, exercise_seconds: 20, memory_mib: 1024}
            hints: [a, b, c]
            mistakes: {squares: "Squares instead of doubling."}
        """)
    )
    (root / "solutions/01_toys/01_toy/toy.py").write_text(solution)
    (root / "exercises/01_toys/01_toy/toy.py").write_text(solution)
    (root / "tests/chapters/01_toys/01_toy/test_toy.py").write_text(tests)
    (root / "tests/chapters/01_toys/01_toy/mistakes/toy.py").write_text(
        'from grader.testing import edit\n\nsquares = edit("return x * 2", "return x * x")\n'
    )
    return course.load(root)


def grade(judge: Judge, source: str) -> Report:
    exercise = judge.course.exercise("1.1/toy")
    return judge.grade_source(exercise, textwrap.dedent(source), Path("/work/toy.py"), seed=1)


def checks(report: Report) -> tuple[Check, Check]:
    doubles, counts = report.checks
    return doubles, counts
