"""`grade hint`, `grade solution`: help, one step at a time."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options
from grader.cli.errors import Refusal
from grader.cli.targets import Target


@click.command()
@click.argument("target", type=Target())
@click.option("--all", "everything", is_flag=True, help="All hints at once.")
@click.option("--again", is_flag=True, help="Those you have seen, and no new one.")
@options.as_json
@options.state
def hint(target: str, everything: bool, again: bool, as_json: bool, state: Path | None) -> None:
    """Show the next hint of an exercise."""
    from grader.cli.desk import notices, one_exercise, open_desk

    course, store = open_desk(state)
    exercise = one_exercise(course, target, store)
    seen = store.hints_shown(exercise.id)
    count = len(exercise.hints)
    if again and not seen:
        raise Refusal(f"you have seen no hint of {exercise.id} yet", f"grade hint {exercise.id}")
    first, last = (1, count) if everything else (1, seen) if again else (min(seen + 1, count), min(seen + 1, count))
    for number in range(seen + 1, last + 1):
        store.add_hint(exercise.id, number)
    notices(store)
    shown = [(number, exercise.hints[number - 1]) for number in range(first, last + 1)]
    if as_json:
        from grader.show.documents import hints_document
        from grader.show.json_view import dumps

        click.echo(dumps(hints_document(exercise, shown)))
        return
    from grader.show.hints import show_hints
    from grader.show.terminal import make_console

    show_hints(make_console(), exercise, shown)


@click.command()
@click.argument("target", type=Target())
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.as_json
@options.state
def solution(target: str, yes: bool, as_json: bool, state: Path | None) -> None:
    """Show the reference solution of an exercise."""
    from grader.cli.desk import notices, one_exercise, open_desk

    course, store = open_desk(state)
    exercise = one_exercise(course, target, store)
    passed = store.passed(exercise.id)
    left = len(exercise.hints) - store.hints_shown(exercise.id)
    notices(store)
    if not passed and not yes:
        if as_json:
            raise Refusal(f"{exercise.id} is not passed yet", "--yes shows its solution all the same")
        hints = f" and {left} more hint{'s' * (left != 1)} to see" if left else ""
        click.echo(f"You have not passed {exercise.id}{hints}. Reading the solution ends the exercise.", err=True)
        if not click.confirm("Show it?", err=True):
            raise Refusal("not shown", f"grade hint {exercise.id}")
    path = course.solution_path(exercise)
    source = path.read_text(encoding="utf-8")
    if as_json:
        from grader.show.json_view import dumps

        click.echo(dumps({"schema": "llm-by-hand/solution/1", "exercise": exercise.id, "source": source}))
        return
    from grader.show.source import show_source
    from grader.show.terminal import make_console

    show_source(make_console(), source)
