"""Running one hidden test as a check, and saying what went wrong in words for the learner."""

from __future__ import annotations

import hashlib
import importlib.util
import random
import sys
import time
from pathlib import Path
from typing import Any

from grader.course import Exercise
from grader.judge.call import Call
from grader.judge.collect import HiddenTest
from grader.judge.errors import ArgumentChanged, ForbiddenUsed, OutOfTime, SubmissionError, WorkerDied
from grader.judge.submission import Submission
from grader.report import Check, Outcome
from grader.testing import costs, render
from grader.testing.failure import CheckFailed
from grader.testing.property import seeded

_failures: list[Exception] = []


class NotMeasured(Exception):
    """This machine lacks what a check needs; the message says what."""


def unavailable(exercise: Exercise) -> str:
    """Why the exercise cannot be run on this machine at all, or ""."""
    if exercise.kind == "triton" and importlib.util.find_spec("triton") is None:
        return "not measured: Triton is not installed (it exists for Linux only); everything else of the course works"
    return ""


def last_failure() -> Exception | None:
    """The exception behind the check that `run` made last, if it is one that a mistake could explain."""
    return _failures[-1] if _failures else None


def has_failed(check: Check) -> bool:
    """Whether the check ended otherwise than well."""
    return check.outcome not in (Outcome.PASSED, Outcome.NOT_MEASURED)


def not_run(test: HiddenTest, possible: float, outcome: Outcome, message: str) -> Check:
    """A check that there was no point in running."""
    return Check(test.name, test.about, outcome, 0.0, possible, message=message)


def run(
    test: HiddenTest,
    submission: Submission,
    exercise: Exercise,
    earlier: list[Check],
    possible: float,
    seed: int,
    exercise_deadline: float,
    patience: float,
) -> Check:
    """The check that comes of one test."""
    _failures.clear()
    passed = {check.name for check in earlier if check.outcome is Outcome.PASSED}
    ran = {check.name for check in earlier}
    if missing := [need for need in test.needs if need in ran and need not in passed]:
        return not_run(test, possible, Outcome.BLOCKED, f"not run until {missing[0]} passes")
    if time.monotonic() > exercise_deadline:
        seconds = exercise.limits.exercise_seconds * patience
        return not_run(test, possible, Outcome.ERROR, f"not run: the {seconds:.0f} s for this exercise are used up")
    began = time.monotonic()
    limit = exercise.limits.check_seconds * patience
    found: dict[str, Any] = {"outcome": Outcome.PASSED, "points": possible}
    collected: list[Any] = []
    try:
        submission.session.allow(limit, exercise_deadline)
        with costs.collect() as collected:
            perform(test, submission, seed)
    except Exception as error:
        try:
            found = _explain(_on_smallest_example(error, test, submission, seed), test, submission, exercise, limit)
        except Exception as another:
            # A value that came may resist every attempt to show it. That must not cost the report.
            found = {"outcome": Outcome.FAILED, "message": f"failed, and cannot be shown ({another})"}
    output = ""
    if submission._session is not None and submission._session.alive:
        output = submission._session.output()
    return Check(
        test.name,
        test.about,
        possible=possible,
        output=found.pop("output", "") or output,
        costs=tuple(collected),
        seconds=time.monotonic() - began,
        **{"points": 0.0, **found},
    )


def perform(test: HiddenTest, submission: Any, seed: int, example: dict[str, Any] | None = None) -> None:
    """Runs a test function with every global generator seeded; with `example`, only on these drawn arguments."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {test.name}".encode()).digest()[:4], "little")
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)
    extra = {}
    if test.wants_rng:
        import numpy

        extra["rng"] = numpy.random.default_rng(number)
    submission.session.calls.clear()
    with seeded(number):
        if example is not None:
            test.function.run_example(submission, example, **extra)  # type: ignore[attr-defined]
        else:
            test.function(submission, **extra)


def _on_smallest_example(error: Exception, test: HiddenTest, submission: Submission, seed: int) -> Exception:
    """The failure again, so that the session's last call is the one that failed: shrinking has gone on to others."""
    example = getattr(error, "example", None)
    if example is None or getattr(error, "fatal", False):
        return error
    try:
        perform(test, submission, seed, example)
    except Exception as again:
        if type(again) is type(error):
            again.example = example  # type: ignore[attr-defined]
            return again
    return error


def load_problem(error: Exception, path: Path) -> str:
    """Why a file could not be loaded, with the line."""
    if isinstance(error, OutOfTime):
        return f"importing the file takes too long; it is stuck here:\n{error.where}"
    if isinstance(error, WorkerDied):
        return f"{error} (while the file was imported)"
    if isinstance(error, ForbiddenUsed):
        return str(error)
    assert isinstance(error, SubmissionError)
    what = f"{error.kind}: {error.message}"
    return f"{what}\n{error.traceback}" if error.traceback else what


def _explain(
    error: Exception, test: HiddenTest, submission: Submission, exercise: Exercise, limit: float
) -> dict[str, Any]:
    """The parts of a Check that say what went wrong."""
    found: dict[str, Any] = {"outcome": Outcome.FAILED, "message": str(error)}
    if isinstance(error, NotMeasured):
        return {"outcome": Outcome.NOT_MEASURED, "message": str(error)}
    if isinstance(error, OutOfTime):
        return found | {
            "message": f"no result within {limit:.0f} s: an endless loop, or far too slow",
            "traceback": error.where,
            "output": error.output,
            "call": _call_text(error, submission),
        }
    if isinstance(error, WorkerDied):
        return found | {"output": error.output, "call": _call_text(error, submission)}
    if isinstance(error, SubmissionError):
        if error.kind == "NotImplementedError" and error.message.startswith(f"{exercise.id}: write "):
            return found | {"message": "not written yet: " + error.message.removeprefix(f"{exercise.id}: write ")}
        _failures.append(error)
        return found | {
            "message": _said(error),
            "traceback": error.traceback,
            "call": _call_text(error, submission),
        }
    if isinstance(error, ForbiddenUsed | ArgumentChanged):
        _failures.append(error)
        return found | {"call": _call_text(error, submission)}
    if isinstance(error, CheckFailed):
        _failures.append(error)
        return found | {
            "message": error.message,
            "call": error.call or _call_text(error, submission),
            "got": error.got,
            "expected": error.expected,
            "where": error.where,
        }
    # Every test passes on the solution: what a test cannot digest is a result of an unexpected kind.
    _failures.append(error)
    outcome = _last_outcome(submission)
    return found | {
        "message": f"the result is not what the exercise describes ({type(error).__name__}: {error})",
        "got": "" if outcome is None else render.short(outcome),
        "call": _call_text(error, submission),
    }


def _said(error: SubmissionError) -> str:
    if error.kind == "SystemExit":
        return "your code called sys.exit or raised SystemExit; a function returns or raises an ordinary exception"
    if error.kind == "RecursionError":
        return "RecursionError: the recursion does not end, or goes deeper than Python allows"
    if error.kind == "MemoryError" or "can't allocate memory" in error.message:
        return (
            f"out of memory: {error.message.splitlines()[0] if error.message else 'more was asked for than the limit'}"
        )
    if error.kind == "AttributeError" and error.message.startswith("the file has no"):
        return error.message
    return f"{error.kind}: {error.message}" if error.message else error.kind


def _call_text(error: Any, submission: Submission) -> str:
    call = getattr(error, "call", None)
    if call is None or isinstance(call, str):
        session = submission._session
        if session is None or not session.calls:
            return call or ""
        call = _origin(getattr(error, "subject", None), session.calls)
    try:
        return render.render_call(call.name, call.args, call.kwargs)
    except Exception:
        return f"{call.name}(...)"


def _origin(subject: Any, calls: list[Call]) -> Call:
    """The call that returned the wrong value, where that can be told; else the last one."""
    for call in reversed(calls):
        if subject is not None and _holds(call.outcome, subject):
            return call
    return calls[-1]


def _holds(outcome: Any, subject: Any) -> bool:
    if outcome is subject:
        return True
    if isinstance(outcome, list | tuple):
        return any(_holds(item, subject) for item in outcome[:64])
    if isinstance(outcome, dict):
        return any(_holds(item, subject) for item in outcome.values())
    fields = getattr(type(outcome), "__record_fields__", None)
    return fields is not None and _holds(outcome.__record_fields__, subject)


def _last_outcome(submission: Submission) -> Any:
    session = submission._session
    return session.calls[-1].outcome if session is not None and session.calls else None
