"""`grade list`, `grade tracks`: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options
from grader.cli.targets import Target

if TYPE_CHECKING:
    from grader.course import Chapter, Course


@click.command("list")
@click.argument("target", required=False, type=Target())
@click.option("--all", "everything", is_flag=True, help="Chapters that are not built yet as well.")
@options.as_json
@options.state
def list_command(target: str | None, everything: bool, as_json: bool, state: Path | None) -> None:
    """Show the exercises and how far you are."""
    from grader.cli.desk import notices, open_desk, standings

    course, store = open_desk(state)
    known = standings(store)
    notices(store)
    chapters = _chapters(course, target, everything)
    if as_json:
        from grader.show.documents import list_document
        from grader.show.json_view import dumps

        click.echo(dumps(list_document(course, chapters, known)))
        return
    from grader.show.course_view import chapter_lines, part_line
    from grader.show.terminal import make_console, say, signs_for, text_width

    console = make_console()
    width = text_width(console)
    wide = max(
        (len(one.slug) for chapter in chapters if chapter.built for one in course.page(chapter.id).exercises), default=0
    )
    for part in course.parts:
        of_part = [chapter for chapter in chapters if chapter.part == part.number]
        if of_part:
            console.print(part_line(part))
        for chapter in of_part:
            for line in chapter_lines(course, chapter, known, width, signs_for(console), wide):
                console.print(line)
    if not everything and target is None:
        hidden = sum(not chapter.built for chapter in course.chapters())
        if hidden:
            console.print()
            say(console, f"{hidden} chapters are planned and not built yet: grade list --all", "dim")


def _chapters(course: Course, target: str | None, everything: bool) -> list[Chapter]:
    if target is None:
        return [chapter for chapter in course.chapters() if chapter.built or everything]
    from grader.course import find

    named = {exercise.chapter for exercise in find(course, target)}
    return [chapter for chapter in course.chapters() if chapter.id in named]


@click.command()
@click.argument("key", required=False)
@options.as_json
@options.state
def tracks(key: str | None, as_json: bool, state: Path | None) -> None:
    """Show the guided tracks."""
    from grader.cli.desk import notices, open_desk, standings

    course, store = open_desk(state)
    chosen = [course.track(key)] if key else list(course.tracks)
    known = standings(store)
    notices(store)
    if as_json:
        from grader.show.documents import tracks_document
        from grader.show.json_view import dumps

        click.echo(dumps(tracks_document(course, chosen, known)))
        return
    from grader.show.course_view import track_lines
    from grader.show.terminal import make_console, say, signs_for, text_width

    console = make_console()
    for track in chosen:
        for line in track_lines(course, track, known, text_width(console), signs_for(console)):
            console.print(line)
        console.print()
    key = chosen[0].key
    say(console, f"grade {key} grades what is built of it; grade {key}/next the next exercise", "dim")
