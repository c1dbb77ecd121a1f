"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

workspace = click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder with your files; found from where you are unless given.",
)
state = click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where attempts are kept (or set LLM_BY_HAND_STATE).",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout and nothing else.")
