"""`grade show 4.2`: the chapter page, rendered."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options
from grader.cli.targets import Target


@click.command()
@click.argument("target", type=Target())
@options.as_json
@options.state
def show(target: str, as_json: bool, state: Path | None) -> None:
    """Read a chapter's page."""
    from grader.cli.desk import notices, open_desk, standings
    from grader.course import find

    course, store = open_desk(state)
    known = standings(store)
    notices(store)
    chapters = list(dict.fromkeys(exercise.chapter for exercise in find(course, target, done=store.passed)))
    if len(chapters) != 1:
        from grader.cli.errors import Refusal

        raise Refusal(f"{target} names {len(chapters)} chapters, one is shown", f"grade show {chapters[0]}")
    chapter = course.chapter(chapters[0])
    page = course.page(chapter.id)
    readme = (course.root / "exercises" / chapter.folder / "README.md").read_text(encoding="utf-8")
    if as_json:
        from grader.show.documents import page_document
        from grader.show.json_view import dumps

        click.echo(dumps(page_document(chapter, page, readme, known)))
        return
    from grader.show.page import show_page
    from grader.show.terminal import make_console

    show_page(make_console(), chapter, page, readme, known)
