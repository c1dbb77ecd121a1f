"""The command `grade`: parse, call, show. Nothing imports this package."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console command."""
    import sys

    try:
        from grader.cli.run import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to lose
        code = 130
    sys.exit(code)
