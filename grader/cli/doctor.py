"""`grade doctor`: what is here, what is missing, and what that means."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options
from grader.cli.errors import TROUBLE


@click.command()
@options.workspace
@options.as_json
@options.state
def doctor(workspace: Path | None, as_json: bool, state: Path | None) -> int:
    """Show what is on this machine and what that means."""
    import sys

    from grader.doctor import State, examine
    from grader.show.doctor import show_finding
    from grader.show.terminal import make_console
    from grader.show.waiting import Waiting

    console = make_console(sys.stderr if as_json else sys.stdout)
    findings = []
    with Waiting(console, "importing torch in a process of its own") as waiting:
        for finding in examine(state, workspace):
            findings.append(finding)
            if not as_json:
                waiting.now("importing torch in a process of its own")
                show_finding(console, finding)
    if as_json:
        from grader.show.documents import doctor_document
        from grader.show.json_view import dumps

        click.echo(dumps(doctor_document(findings)))
    return TROUBLE if any(finding.state is State.BROKEN for finding in findings) else 0
