"""The session of the check that is running, for the vocabulary that needs to look behind a value."""

from __future__ import annotations

from grader.judge.session import Session
from grader.judge.submission import Submission

_submission: list[Submission] = []


def use(submission: Submission | None) -> None:
    """From now on, this submission is the one that checks call."""
    _submission[:] = [submission] if submission is not None else []


def session() -> Session:
    """The session of the submission in use."""
    return _submission[0].session
