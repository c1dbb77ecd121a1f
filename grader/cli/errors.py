"""Errors as people meet them: what is wrong, what to do next. The texts that repeat stand here."""

from __future__ import annotations

import sys

import click

FAILED = 1
TROUBLE = 2
INTERRUPTED = 130

SEE_HELP = "grade --help shows how it is used"
SEE_LIST = "grade list shows every exercise"
ASK_DOCTOR = "grade doctor shows what is here and what is missing"
REPORT_IT = "this is a fault of the grader: run it again with LLM_BY_HAND_TRACEBACK=1 and report what it prints"


class Refusal(Exception):
    """Something that was asked for cannot be done: `message` says why, `following` what to do instead."""

    def __init__(self, message: str, following: str = "", kind: str = "usage") -> None:
        super().__init__(message)
        self.message = message
        self.following = following
        self.kind = kind


def explain(error: Exception) -> tuple[str, str, str]:
    """(kind, message, what to do next) of any error."""
    if isinstance(error, Refusal):
        return error.kind, error.message, error.following
    if isinstance(error, click.ClickException):
        return "usage", error.format_message(), SEE_HELP
    from grader.course import CourseError, TargetError  # only an error needs them
    from grader.progress import ProgressError
    from grader.workspace import WorkspaceError

    if isinstance(error, TargetError):
        return "usage", str(error), "" if "grade list" in str(error) else SEE_LIST
    if isinstance(error, CourseError | WorkspaceError | ProgressError):
        return "setup", str(error), ""
    judge = sys.modules.get("grader.judge")  # without it none of its errors can have come up
    if judge is not None and isinstance(error, getattr(judge, "CannotStart", ())):
        return "setup", str(error), ASK_DOCTOR
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return "setup", f"{error.strerror or error}{place}", ASK_DOCTOR
    return "internal", f"{type(error).__name__}: {error}", REPORT_IT


def tell(kind: str, message: str, following: str = "", *, as_json: bool) -> None:
    """Say it: on stderr for people, as a document on stdout for --json."""
    if as_json:
        from grader.show.json_view import dumps, error_document

        sys.stdout.write(dumps(error_document(kind, message, following)) + "\n")
        sys.stdout.flush()
        return
    click.echo(f"grade: {message}", err=True)
    if following:
        click.echo(f"       {following}", err=True)
