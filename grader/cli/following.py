"""What to do after a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.course import Course, find
from grader.progress import Store
from grader.report import Report


@dataclass(frozen=True)
class Following:
    """The exercise to go on with (None where all are passed), and that in a sentence."""

    exercise: str | None
    text: str


def following(course: Course, store: Store, reports: Sequence[Report]) -> Following:
    """The first exercise of this run that is not passed, or else the next one in course order."""
    for report in reports:
        if not report.passed:
            again = report.exercise
            return Following(again, f"edit {report.path}, then: grade {again}   (stuck? grade hint {again})")
    passed = {report.exercise for report in reports}

    def done(exercise: str) -> bool:
        return exercise in passed or store.passed(exercise)

    chapter = [course.exercise(report.exercise).chapter for report in reports[-1:]]
    nearby = [exercise for id_ in chapter for exercise in course.page(id_).exercises if not done(exercise.id)]
    open_ones = nearby or find(course, "next", done=done)
    if not open_ones:
        return Following(None, "every exercise that is built is passed: grade status")
    one = open_ones[0]
    return Following(one.id, f"next: {one.id}, {one.title}   (grade show {one.chapter})")
