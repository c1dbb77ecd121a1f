"""A run as JUnit XML, for CI systems that draw it: a suite per exercise, a case per check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from grader.report import Check, Outcome, Report

# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(reports: Sequence[Report]) -> str:
    """The whole document. Not measured counts as skipped; blocked counts as a failure, since its points are lost."""
    root = Xml.Element("testsuites", name="grade")
    for report in reports:
        root.append(_suite(report))
    _total(root, list(root))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _suite(report: Report) -> Xml.Element:
    suite = Xml.Element("testsuite", name=report.exercise, time=f"{report.seconds:.3f}")
    properties = Xml.SubElement(suite, "properties")
    facts = {"seed": report.seed, "points": f"{report.points:g}", "possible": f"{report.possible:g}"}
    for name, value in {**facts, "isolation": report.isolation, "path": report.path}.items():
        Xml.SubElement(properties, "property", name=name, value=_text(str(value)))
    if report.problem:
        case = Xml.SubElement(suite, "testcase", classname=report.exercise, name="the file loads", time="0.000")
        _tell(case, "error", report.problem.splitlines()[0], report.problem)
    for check in report.checks:
        suite.append(_case(report.exercise, check))
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(sum(case.find(kind) is not None for case in cases)))
    return suite


def _case(exercise: str, check: Check) -> Xml.Element:
    case = Xml.Element("testcase", classname=exercise, name=check.name, time=f"{check.seconds:.3f}")
    message = check.message or check.about
    if check.outcome in (Outcome.FAILED, Outcome.BLOCKED):
        _tell(case, "failure", message, _story(check), str(check.outcome))
    elif check.outcome is Outcome.ERROR:
        _tell(case, "error", message, _story(check), str(check.outcome))
    elif check.outcome is Outcome.NOT_MEASURED:
        _tell(case, "skipped", message, "")
    if check.output:
        Xml.SubElement(case, "system-out").text = _text(check.output)
    return case


def _story(check: Check) -> str:
    fields = {
        "about": check.about,
        "call": check.call,
        "got": check.got,
        "expected": check.expected,
        "where": check.where,
        "looks like": "\n".join(mistake.diagnosis for mistake in check.mistakes),
        "your code": check.traceback,
    }
    return "\n".join(f"{name}: {text}" for name, text in fields.items() if text)


def _tell(case: Xml.Element, tag: str, message: str, body: str, kind: str = "") -> None:
    element = Xml.SubElement(case, tag, message=_text(message))
    if kind:
        element.set("type", kind)
    if body:
        element.text = _text(body)


def _total(root: Xml.Element, suites: Sequence[Xml.Element]) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in suites):.3f}")


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
