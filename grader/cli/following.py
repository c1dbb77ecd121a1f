"""What to do after a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.cli.session import Request, Result
from grader.course import Course, CourseError, Exercise, find
from grader.report import Report


@dataclass(frozen=True)
class Following:
    """The exercise to go on with (None where all are passed), and that in a sentence."""

    exercise: str | None
    text: str


def following(request: Request, result: Result) -> Following:
    """The first exercise of this run that is not passed, or else the next one in course order."""
    reports = result.reports
    if result.interrupted:
        graded = {report.exercise for report in reports}
        left = [exercise.id for exercise in request.exercises if exercise.id not in graded]
        return Following(left[0], f"to go on: grade {left[0]}") if left else Following(None, "grade status")
    for report in reports:
        if not report.passed:
            again = report.exercise
            return Following(again, f"edit {Path(report.path).name}, then: grade {again}")
    if request.only:
        again = reports[0].exercise
        return Following(again, f"now all of its checks: grade {again}")
    passed = {report.exercise for report in reports}

    def done(exercise: str) -> bool:
        return exercise in passed or request.store.passed(exercise)

    try:
        one = _next(request.course, reports, done)
    except CourseError:  # in a chapter that nobody asked for: the verdict matters more
        return Following(None, "grade list shows every exercise")
    if one is None:
        return Following(None, "every exercise that is built is passed: grade status")
    return Following(one.id, f"next: {one.id}, {one.title}   (grade show {one.chapter})")


def _next(course: Course, reports: Sequence[Report], done: Callable[[str], bool]) -> Exercise | None:
    """In the chapter of the last report if there is one, else in course order."""
    for report in reports[-1:]:
        for exercise in course.page(report.exercise.partition("/")[0]).exercises:
            if not done(exercise.id):
                return exercise
    return next(iter(find(course, "next", done=done)), None)
