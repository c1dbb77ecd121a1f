"""The command group: `grade TARGET...` grades, `grade list` and so on are commands, each imported when it is used."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from grader.cli.targets import Target

RUN = "run"
"""The hidden command behind `grade TARGET...`."""

COMMANDS = {
    RUN: "grade:run",
    "list": "browse:list_command",
    "tracks": "browse:tracks",
    "show": "show:show",
    "status": "status:status",
    "hint": "help:hint",
    "solution": "help:solution",
    "reset": "files:reset",
    "init": "files:init",
    "doctor": "doctor:doctor",
    "completion": "complete:completion",
    "dev": "dev:dev",
}

HELP = """Usage: grade TARGET... [OPTIONS]
       grade COMMAND [ARGUMENTS]...

  Grade what you wrote, and find out what to write next.

Targets:
  4.2                 a chapter
  4.2/online_softmax  an exercise; its name alone will do
  4                   a part
  gpu                 a track (grade tracks names them)
  next, all           the first exercise you have not passed; every one
"""

EXIT_CODES = "Exit codes: 0 all passed, 1 something failed, 2 usage or set-up error, 130 interrupted."


class Grade(click.Group):
    """A group whose unnamed command grades."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"grader.cli.{module}"), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and args[0] not in ("--help", "-h", "--version"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(HELP)
        run = self.get_command(ctx, RUN)
        assert run is not None
        run.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
        formatter.write(f"\n{EXIT_CODES}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands, or what `grade TARGET...` takes."""
        run = self.get_command(ctx, RUN)
        assert run is not None
        items = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return items + [item for item in run.shell_complete(ctx, incomplete) if item.value not in ("--help", "-h")]
        return [item for item in items if item.value != RUN] + Target().shell_complete(ctx, run.params[0], incomplete)


@click.command(
    cls=Grade,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def grade(ctx: click.Context, version: bool) -> int | None:
    """Grade what you wrote, and find out what to write next."""
    if version:
        from grader import __version__

        click.echo(f"llm-by-hand {__version__}")
        return 0
    if ctx.invoked_subcommand is None:
        from grader.cli.welcome import welcome

        welcome()
    return None
