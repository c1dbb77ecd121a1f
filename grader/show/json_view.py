"""The document of `grade --json`, described field by field in docs/report.md."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Sequence
from importlib import metadata

from grader.report import Outcome, Report
from grader.report_json import to_json

GRADE = "llm-by-hand/grade/1"
_PACKAGES = ("llm-by-hand", "torch", "triton", "numpy", "scipy", "hypothesis")


def grade_document(
    reports: Sequence[Report], *, partial: bool = False, interrupted: bool = False, following: str | None = None
) -> dict[str, object]:
    """Everything one `grade` run found out.

    `partial`: not all checks were run (--check, -x). `interrupted`: Ctrl-C ended the run early. `following`: the id of
    the exercise to do next.
    """
    return {
        "schema": GRADE,
        "reports": [to_json(report) for report in reports],
        "summary": {
            "passed": bool(reports) and not interrupted and all(report.passed for report in reports),
            "exercises": len(reports),
            "exercises_passed": sum(report.passed for report in reports),
            "checks": {
                str(outcome): sum(check.outcome is outcome for report in reports for check in report.checks)
                for outcome in Outcome
            },
            "points": sum(report.points for report in reports),
            "possible": sum(report.possible for report in reports),
            "seconds": round(sum(report.seconds for report in reports), 3),
            "partial": partial,
            "interrupted": interrupted,
            "next": following,
        },
        "versions": versions(),
    }


def error_document(kind: str, message: str, following: str = "") -> dict[str, object]:
    """What --json prints instead of a result: `kind` is usage, setup, interrupted or internal."""
    return {"schema": GRADE, "error": {"kind": kind, "message": message, "next": following}, "versions": versions()}


def versions() -> dict[str, str | None]:
    """Versions of what a verdict depends on; None where a package is absent. Imports none of them."""
    found: dict[str, str | None] = {"python": platform.python_version(), "platform": sys.platform}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def dumps(document: object) -> str:
    """Strict JSON, indented: numbers that JSON cannot say (inf, nan) become strings."""
    return json.dumps(_strict(document), indent=2, allow_nan=False)


def _strict(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value
