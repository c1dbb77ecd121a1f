"""`grade status`: how far you are."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options


@click.command()
@options.as_json
@options.state
def status(as_json: bool, state: Path | None) -> None:
    """Show what you have passed, per part and per track."""
    from grader.cli.desk import notices, open_desk, standings

    course, store = open_desk(state)
    known = standings(store)
    notices(store)
    if as_json:
        from grader.show.documents import status_document
        from grader.show.json_view import dumps

        click.echo(dumps(status_document(course, known)))
        return
    from grader.show.status import status_lines
    from grader.show.terminal import make_console, signs_for, text_width

    console = make_console()
    for line in status_lines(course, known, text_width(console), signs_for(console)):
        console.print(line)
