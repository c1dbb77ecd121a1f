"""`grade init`, `grade reset`: the learner's files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.cli import options
from grader.cli.errors import Refusal
from grader.cli.targets import Target


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@options.as_json
def init(folder: Path, as_json: bool) -> None:
    """Make a folder for your work, or bring it up to date."""
    from grader import workspace
    from grader.course import load

    change = workspace.init(load(), folder)
    if as_json:
        from grader.show.documents import change_document
        from grader.show.json_view import dumps

        click.echo(dumps(change_document(change)))
        return
    for verb, names in (("added", change.added), ("updated", change.updated)):
        if names:
            click.echo(f"{len(names)} files {verb}")
    for name in change.beside:
        click.echo(f"kept {name}, which you edited; the course's new version is {name}.new")
    if not (change.added or change.updated or change.beside):
        click.echo("up to date")
    here = os.path.relpath(change.workspace)
    click.echo(f"Your workspace: {change.workspace}")
    click.echo("next: grade" if here == "." else f"next: cd {here} && grade")


@click.command()
@click.argument("target", type=Target())
@options.workspace
@click.option("--yes", is_flag=True, help="Do not ask where several exercises are named.")
@options.as_json
@options.state
def reset(target: str, workspace: Path | None, yes: bool, as_json: bool, state: Path | None) -> None:
    """Start an exercise again; what you wrote is kept as a backup."""
    from grader import workspace as workspaces
    from grader.cli.desk import open_desk
    from grader.cli.targets import exercises_of

    course, store = open_desk(state)
    exercises = exercises_of(course, [target], store)
    folder = workspaces.find_workspace(workspace or Path.cwd())
    if len(exercises) != 1 and not yes:
        question = f"Reset {len(exercises)} exercises ({', '.join(exercise.id for exercise in exercises[:4])}, ...)?"
        if as_json or not click.confirm(question, err=True):
            raise Refusal("nothing was reset", "--yes resets them all, with a backup of each")
    backups = [(exercise, workspaces.reset(course, folder, exercise)) for exercise in exercises]
    if as_json:
        from grader.show.documents import reset_document
        from grader.show.json_view import dumps

        click.echo(dumps(reset_document(folder, backups)))
        return
    for exercise, backup in backups:
        kept = f"; what you wrote is in {os.path.relpath(backup)}" if backup else "; it was untouched"
        click.echo(f"{exercise.id} is the stub again{kept}")
