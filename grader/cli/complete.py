"""`grade completion`: the snippet that teaches a shell to complete targets."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.cli.errors import Refusal

VARIABLE = "_GRADE_COMPLETE"
INSTALL = {
    "bash": ("~/.bashrc", 'eval "$(grade completion bash)"'),
    "zsh": ("~/.zshrc", 'eval "$(grade completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "grade completion fish | source"),
}


@click.command()
@click.argument("shell", required=False, type=click.Choice(list(INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script of bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    if shell is None:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in INSTALL:
            raise Refusal("which shell? bash, zsh and fish can complete", "grade completion bash")
        file, line = INSTALL[shell]
        click.echo(f"Put this line into {file} and open a new terminal:\n\n  {line}")
        return
    kind = get_completion_class(shell)
    assert kind is not None
    file, line = INSTALL[shell]
    click.echo(f"# {file}: {line}")
    click.echo(kind(ctx.find_root().command, {}, "grade", VARIABLE).source())
