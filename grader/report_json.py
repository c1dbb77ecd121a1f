"""A report as a JSON document and back. docs/report.md describes the document field by field."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from grader.report import Check, Cost, Mistake, Outcome, Report

SCHEMA = "llm-by-hand/report/1"
"""The number grows when a field changes its meaning or goes; fields may be added without."""


class ReportError(ValueError):
    """A document that is no report of this schema."""


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values. Numbers that JSON lacks are the strings "inf", "-inf" and "nan"."""
    document: dict[str, Any] = {"schema": SCHEMA}
    document |= asdict(report)
    document["passed"] = report.passed
    document["points"] = report.points
    document["possible"] = report.possible
    plain: dict[str, Any] = _plain(document)
    return plain


def from_json(document: object) -> Report:
    """The report that a document was made from; fields that it doesn't know are ignored. Raises ReportError."""
    if not isinstance(document, dict):
        raise ReportError(f"a report is a JSON object, not {type(document).__name__}")
    if document.get("schema") != SCHEMA:
        raise ReportError(f"the schema is {document.get('schema')!r}, this version of the grader reads {SCHEMA!r}")
    try:
        return Report(
            exercise=str(document["exercise"]),
            title=str(document["title"]),
            kind=str(document["kind"]),
            path=str(document["path"]),
            checks=tuple(map(_check, document["checks"])),
            seed=int(document["seed"]),
            isolation=str(document["isolation"]),
            seconds=float(document["seconds"]),
            problem=str(document["problem"]),
            output=str(document["output"]),
            versions={str(name): str(version) for name, version in document["versions"].items()},
        )
    except KeyError as error:
        raise ReportError(f"the field {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"a field has the wrong type: {error}") from None


def _check(document: dict[str, Any]) -> Check:
    return Check(
        name=str(document["name"]),
        about=str(document["about"]),
        outcome=Outcome(document["outcome"]),
        points=float(document["points"]),
        possible=float(document["possible"]),
        message=str(document["message"]),
        call=str(document["call"]),
        got=str(document["got"]),
        expected=str(document["expected"]),
        where=str(document["where"]),
        traceback=str(document["traceback"]),
        output=str(document["output"]),
        mistakes=tuple(Mistake(str(m["name"]), str(m["diagnosis"])) for m in document["mistakes"]),
        costs=tuple(map(_cost, document["costs"])),
        seconds=float(document["seconds"]),
    )


def _cost(document: dict[str, Any]) -> Cost:
    limit = document["limit"]
    return Cost(
        name=str(document["name"]),
        value=float(document["value"]),
        limit=None if limit is None else float(limit),
        relation=str(document["relation"]),
        why=str(document["why"]),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Outcome):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
