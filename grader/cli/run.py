"""Running the command line: exit codes, and every error as one or two lines that say what to do next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from grader.cli.errors import INTERRUPTED, TROUBLE, explain, tell
from grader.cli.root import grade

TRACEBACK = "LLM_BY_HAND_TRACEBACK"


def run(arguments: Sequence[str]) -> int:
    """Run `grade` with these arguments and return its exit code: 0 all passed, 1 something failed, 2 usage or set-up
    error, 130 interrupted."""
    as_json = wants_json(arguments)
    try:
        code = grade.main(args=list(arguments), prog_name="grade", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        tell("interrupted", "interrupted; nothing is lost but the exercise that was being graded", as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        # `grade list | head`: the reader has seen enough. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        tell(*explain(error), as_json=as_json)
        return TROUBLE


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether --json was asked for, even where the rest of the line cannot be understood."""
    before = list(arguments)
    if "--" in before:
        before = before[: before.index("--")]
    return "--json" in before
