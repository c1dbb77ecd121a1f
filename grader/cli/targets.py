"""TARGET arguments: what they mean, and how the shell completes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from grader.course import Course, Exercise
    from grader.progress import Store

    TextParam = click.ParamType[str]
else:
    TextParam = click.ParamType  # not generic before click 8.4


class Target(TextParam):
    """A chapter, an exercise, a part, a track, `next` or `all`."""

    name = "target"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from grader.course import CourseError, load

        try:
            return [
                CompletionItem(value, help=title)
                for value, title in candidates(load(), incomplete)
                if value.startswith(incomplete)
            ]
        except (CourseError, OSError):  # a shell that completes nothing beats one that prints errors
            return []


def candidates(course: Course, incomplete: str) -> Iterator[tuple[str, str]]:
    """What can be typed, each with its title: chapters first, exercises once a chapter or a letter is there."""
    built = [chapter for chapter in course.chapters() if chapter.built]
    if "/" in incomplete:
        for chapter in built:
            if incomplete.startswith(f"{chapter.id}/"):
                for exercise in course.page(chapter.id).exercises:
                    yield exercise.id, exercise.title
        return
    yield "next", "the first exercise you have not passed"
    yield "all", "every exercise"
    for track in course.tracks:
        yield track.key, track.title
    for chapter in built:
        yield chapter.id, chapter.title
    if incomplete[:1].isalpha():
        for exercise in course.exercises():
            yield exercise.slug, exercise.title


def exercises_of(course: Course, targets: Sequence[str], store: Store) -> list[Exercise]:
    """What the targets name, each exercise once, in the order asked for."""
    from difflib import get_close_matches

    from grader.cli.errors import Refusal
    from grader.cli.root import COMMANDS
    from grader.course import TargetError, find

    found: dict[str, Exercise] = {}
    for target in targets:
        if target in COMMANDS:
            raise Refusal(f"{target} is a command and comes first", f"grade {target} [options]")
        try:
            exercises = find(course, target, done=store.passed)
        except TargetError:
            if commands := get_close_matches(target, COMMANDS, cutoff=0.75):
                raise Refusal(f"no exercise and no command {target!r}; did you mean grade {commands[0]}?") from None
            raise
        for exercise in exercises:
            found.setdefault(exercise.id, exercise)
    return list(found.values())
