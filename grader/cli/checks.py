"""The checks that --check names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.cli.errors import Refusal
from grader.course import Course, Exercise
from grader.course.errors import near

_TEST = re.compile(r"^def test_(\w+)\(", re.MULTILINE)


def check_names(course: Course, exercise: Exercise) -> list[str]:
    """The names of an exercise's checks, in order, read without running anything."""
    return _TEST.findall(course.tests_path(exercise).read_text(encoding="utf-8"))


def chosen(course: Course, exercises: Sequence[Exercise], names: Sequence[str]) -> dict[str, list[str]]:
    """Per exercise id the checks asked for; exercises that have none of them are left out."""
    known = {exercise.id: check_names(course, exercise) for exercise in exercises}
    every = [name for of_one in known.values() for name in of_one]
    wanted = [name.removeprefix("test_").replace("-", "_") for name in names]
    for name in wanted:
        if name not in every:
            offer = near(name, every)
            following = "" if offer else f"the checks are {', '.join(dict.fromkeys(every))}"
            raise Refusal(f"no check {name!r}{offer}", following)
    return {id_: picked for id_, of_one in known.items() if (picked := [name for name in of_one if name in wanted])}
