"""`grade dev`: for those who write the course."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.cli import options
from grader.cli.errors import FAILED
from grader.cli.targets import Target


@click.group()
def dev() -> None:
    """For contributors: prove exercises, write stubs."""


@dev.command()
@click.argument("targets", nargs=-1, type=Target(), metavar="[TARGET]...")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; one per core unless given.")
@options.as_json
def check(targets: tuple[str, ...], jobs: int | None, as_json: bool) -> int:
    """Prove exercises: stub fails, solution passes, every mistake is caught and named."""
    from grader.cli.proving import prove_and_show

    return prove_and_show(targets or ("all",), jobs or os.cpu_count() or 1, as_json=as_json)


@dev.command()
@click.argument("chapters", nargs=-1, metavar="[CHAPTER]...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if one is out of date.")
def stubs(chapters: tuple[str, ...], only_check: bool) -> int:
    """Write the stubs that derive from the solutions."""
    from grader.course import load
    from grader.stubs import stale_stubs, write_stubs

    course = load()
    paths = (stale_stubs if only_check else write_stubs)(course, chapters or None)
    for path in paths:
        click.echo(_shown(path))
    if only_check:
        click.echo(f"{len(paths)} out of date: grade dev stubs writes them" if paths else "every stub is right")
        return FAILED if paths else 0
    click.echo(f"{len(paths)} stub{'s' * (len(paths) != 1)} written" if paths else "every stub was right already")
    return 0


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
