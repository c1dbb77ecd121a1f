"""The command `grade`: parse, call, show. Nothing imports this package."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console command."""
    import sys

    from grader.cli.run import run

    sys.exit(run(sys.argv[1:]))
