"""Every exercise of the course proves itself: see `grade dev check`."""

from __future__ import annotations

import pytest

from grader import course
from grader.course import Exercise
from grader.judge.prove import prove

COURSE = course.load()


@pytest.mark.parametrize("exercise", list(COURSE.exercises()), ids=lambda exercise: exercise.id)
def test_proof(exercise: Exercise) -> None:
    """The stub fails kindly, mistakes are named, alternatives pass, trivial answers fail. Solutions: tests/chapters."""
    (proof,) = prove(COURSE, [exercise], jobs=1, patience=6.0, seeds=())
    wrong = [f"{trial.role} {trial.program}: {trial.detail}" for trial in proof.trials if not trial.ok]
    assert proof.ok, "\n".join([proof.problem, *wrong])
    roles = {trial.role for trial in proof.trials}
    assert {"stub", "mistake", "alternative"} <= roles
