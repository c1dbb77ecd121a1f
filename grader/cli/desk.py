"""What most commands start from: the course, the learner's attempts, the workspace."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli.errors import Refusal
from grader.course import Course, Exercise, find, load
from grader.progress import Store, open_store
from grader.show.standing import Standing


def open_desk(state: Path | None) -> tuple[Course, Store]:
    """The course and the attempts."""
    return load(), open_store(state)


def notices(store: Store) -> None:
    """Say what the learner should know about the store, on stderr, once."""
    for notice in store.notices:
        click.echo(f"grade: {notice}", err=True)
    store.notices.clear()


def standings(store: Store) -> dict[str, Standing]:
    """The best attempt at each exercise that was tried."""
    return {
        exercise_id: Standing(best.passed, best.points, best.possible) for exercise_id, best in store.best().items()
    }


def one_exercise(course: Course, target: str, store: Store) -> Exercise:
    """The exercise that a target names, where only one will do."""
    exercises = find(course, target, done=store.passed)
    if len(exercises) != 1:
        choices = ", ".join(exercise.id for exercise in exercises[:8]) or "grade status shows what is passed"
        raise Refusal(f"{target} names {len(exercises)} exercises, one is needed", choices)
    return exercises[0]
