"""The listed mistakes of an exercise as programs."""

from __future__ import annotations

from functools import cache

from grader.course import Course, CourseError, Exercise
from grader.judge.collect import load
from grader.testing.mistakes import Edit, EditError


def wrong_programs(course: Course, exercise: Exercise) -> dict[str, str]:
    """Source by name. Raises CourseError where the edits and chapter.yaml do not list the same mistakes."""
    return dict(
        _programs(str(course.mistakes_path(exercise)), str(course.solution_path(exercise)), course, exercise.id)
    )


@cache
def _programs(mistakes: str, solution: str, course: Course, exercise_id: str) -> dict[str, str]:
    from pathlib import Path

    exercise = course.exercise(exercise_id)
    path = Path(mistakes)
    if not path.is_file():
        raise CourseError(f"{path}: the mistakes of {exercise.id} are missing; write each as an edit of the solution")
    module = load(path, f"mistakes_{exercise.chapter.replace('.', '_')}_{exercise.slug}")
    edits = {name: value for name, value in vars(module).items() if isinstance(value, Edit)}
    if unlisted := edits.keys() ^ exercise.mistakes.keys():
        raise CourseError(f"{path}: {', '.join(sorted(unlisted))} must be both here and in chapter.yaml")
    source = Path(solution).read_text(encoding="utf-8")
    programs = {}
    for name in exercise.mistakes:
        try:
            programs[name] = edits[name].apply(source)
        except EditError as error:
            raise CourseError(f"{path}: {name}: {error}") from None
    return programs
