"""Stubs: what the learner starts from, derived from the solutions.

In a solution the lines that a learner must write stand between `### BEGIN SOLUTION` and `### END SOLUTION` (nbgrader's
own markers). In the stub such a region raises NotImplementedError if it is inside a function, and is gone if it is not.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.course import Course, CourseError, Exercise
from grader.files import keep_backup, write_atomically

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
LINE_LENGTH = 120

_NEARLY_A_MARKER = re.compile(r"#+\s*(begin|end)[\s_]+solutions?\b", re.IGNORECASE)


@dataclass(frozen=True)
class _Region:
    """A marked region: indices into the list of lines, both markers included."""

    begin: int
    end: int
    indent: str
    function: str
    """The function around it ("Class.method" for a method), or "" outside of functions."""


def stub_of(source: str, exercise_id: str, file: str | Path = "solution") -> str:
    """The stub of a solution. `file` is what errors call it. Raises CourseError with file and line."""
    lines = source.splitlines()
    regions = _regions(source, lines, str(file))
    if not regions:
        raise CourseError(f"{file}: nothing is left for the learner; mark it with {BEGIN} and {END}")
    out: list[str] = []
    at = 0
    for index, region in enumerate(regions):
        out += lines[at : region.begin]
        at = region.end + 1
        if not region.function:
            at = _close_gap(lines, out, at)
        elif any(_runs_before(earlier, region, lines) for earlier in regions[:index]):
            opens_a_block = out[-1].rstrip().endswith(":")
            out.append(region.indent + ("..." if opens_a_block else "# and the next step here"))
        else:
            out += _raise(region.indent, f"{exercise_id}: write {region.function}")
    out += lines[at:]
    stub = "\n".join(out).rstrip() + "\n"
    try:
        ast.parse(stub)
    except SyntaxError as error:
        why = "a block that holds nothing but a region outside of a function is empty in the stub"
        raise CourseError(f"{file}: the stub is not Python: line {error.lineno}: {error.msg}; {why}") from None
    return stub


def write_stubs(course: Course, chapters: Iterable[str] | None = None) -> list[Path]:
    """Derive and write the stubs of these chapters (of all that are built); returns the files that changed.

    A stub that is replaced is kept in .backups/ first: it may hold somebody's work. Everything that can be written is
    written before CourseError is raised for the rest.
    """
    written: list[Path] = []
    faults: list[str] = []
    for exercise in _drafted(course, chapters, faults):
        path = course.stub_path(exercise)
        try:
            stub = derived_stub(course, exercise)
        except CourseError as error:
            faults.append(str(error))
            continue
        if not path.is_file():
            write_atomically(path, stub)
        elif path.read_bytes() != stub.encode():
            keep_backup(course.root, path)
            write_atomically(path, stub)
        else:
            continue
        written.append(path)
    if faults:
        raise CourseError("\n".join(faults))
    return written


def stale_stubs(course: Course, chapters: Iterable[str] | None = None) -> list[Path]:
    """The stubs that are missing or differ from what their solution gives."""
    faults: list[str] = []
    stale: list[Path] = []
    for exercise in _drafted(course, chapters, faults):
        path = course.stub_path(exercise)
        if not path.is_file() or path.read_bytes() != derived_stub(course, exercise).encode():
            stale.append(path)
    if faults:
        raise CourseError("\n".join(faults))
    return stale


def derived_stub(course: Course, exercise: Exercise) -> str:
    """The stub of an exercise, made from its solution; exercises/ may hold somebody's edits instead."""
    path = course.solution_path(exercise)
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{path}: the solution of {exercise.id} is missing") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{path}: this is not UTF-8: {error}") from None
    return _with_forbidden(stub_of(source, exercise.id, path), exercise.forbid)


def _with_forbidden(stub: str, forbid: Sequence[str]) -> str:
    """The stub with a note, below its docstring, of what chapter.yaml forbids."""
    if not forbid:
        return stub
    first = ast.parse(stub).body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    at = first.end_lineno if docstring and first.end_lineno is not None else 0
    note = textwrap.wrap(
        f"Not allowed here, in any form: {', '.join(forbid)}.",
        LINE_LENGTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    lines = stub.splitlines()
    return "\n".join([*lines[:at], "", *note, *lines[at:]]) + "\n"


def _drafted(course: Course, chapters: Iterable[str] | None, faults: list[str]) -> Iterable[Exercise]:
    wanted = [c.id for c in course.chapters() if c.built] if chapters is None else list(chapters)
    for chapter in wanted:
        try:
            yield from course.draft(chapter).exercises
        except CourseError as error:
            faults.append(str(error))


def _regions(source: str, lines: list[str], file: str) -> list[_Region]:
    """Every marked region in order, checked to be balanced and to stand inside one block."""
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError) as error:
        raise CourseError(f"{file}: this is not Python: {error}") from None
    functions = _functions(tree)
    regions: list[_Region] = []
    opened: int | None = None
    for token in tokens:
        if token.type != tokenize.COMMENT or not _NEARLY_A_MARKER.match(token.string):
            continue
        index = token.start[0] - 1
        marker = token.string.rstrip()
        place = f"{file}: line {index + 1}"
        if marker not in (BEGIN, END) or lines[index].strip() != marker:
            raise CourseError(f"{place}: {marker!r} is nearly a marker; write {BEGIN} or {END} on a line of its own")
        if marker == BEGIN:
            if opened is not None:
                raise CourseError(f"{place}: {BEGIN} inside the region that began on line {opened + 1}")
            opened = index
        else:
            if opened is None:
                raise CourseError(f"{place}: {END} without {BEGIN}")
            regions.append(_region(lines, opened, index, functions, file))
            opened = None
    if opened is not None:
        raise CourseError(f"{file}: line {opened + 1}: {BEGIN} without {END}")
    return regions


def _region(lines: list[str], begin: int, end: int, functions: list[tuple[str, int, int]], file: str) -> _Region:
    place = f"{file}: line {begin + 1}"
    inside = [i for i in range(begin + 1, end) if lines[i].strip() and not lines[i].lstrip().startswith("#")]
    if not inside:
        raise CourseError(f"{place}: the region is empty")
    indent = _indent(lines[begin])
    if not _indent(lines[inside[0]]) == indent == _indent(lines[end]):
        raise CourseError(f"{place}: both markers must be indented as the first line of code between them")
    function = _around(functions, begin)
    if function != _around(functions, inside[-1], at_most=function):
        raise CourseError(f"{place}: the region leaves {function or 'the block in which it began'}")
    return _Region(begin, end, indent, function)


def _functions(tree: ast.Module) -> list[tuple[str, int, int]]:
    """Dotted name, first and last line (as indices) of every function, outer ones first."""
    found: list[tuple[str, int, int]] = []

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((".".join((*names, child.name)), child.lineno - 1, (child.end_lineno or 0) - 1))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                visit(child, (*names, child.name))
            else:
                visit(child, names)

    visit(tree, ())
    return found


def _around(functions: list[tuple[str, int, int]], line: int, at_most: str | None = None) -> str:
    """The innermost function around a line; with `at_most`, that one if it is among those around the line."""
    around = [name for name, first, last in functions if first <= line <= last]
    if at_most is not None and (not at_most or at_most in around):
        return at_most
    return around[-1] if around else ""


def _runs_before(earlier: _Region, later: _Region, lines: list[str]) -> bool:
    """Whether `later` can only be reached through `earlier`: the same block, or one inside it further down."""
    if earlier.function != later.function:
        return False
    between = (line for line in lines[earlier.end : later.begin + 1] if line.strip())
    return all(len(_indent(line)) >= len(earlier.indent) for line in between)


def _raise(indent: str, message: str) -> list[str]:
    line = f'{indent}raise NotImplementedError("{message}")'
    if len(line) <= LINE_LENGTH:
        return [line]
    return [f"{indent}raise NotImplementedError(", f'{indent}    "{message}"', f"{indent})"]


def _close_gap(lines: list[str], out: list[str], at: int) -> int:
    """Join what is left on both sides of a region that disappeared, with the blank lines a formatter wants there."""
    before = after = 0
    while out and not out[-1].strip():
        out.pop()
        before += 1
    while at < len(lines) and not lines[at].strip():
        at += 1
        after += 1
    if out and at < len(lines):
        top_level = not _indent(lines[at])
        most = 2 if top_level else 1
        a_definition_begins = _starts_definition(lines, at)
        a_block_ends = len(_indent(out[-1])) > len(_indent(lines[at]))
        opens_a_block = out[-1].rstrip().endswith(":")
        wanted = most if a_definition_begins or a_block_ends else min(most, max(before, after))
        out += [""] * (0 if opens_a_block else wanted)
    return at


def _starts_definition(lines: list[str], at: int) -> bool:
    """Whether a function or class begins here, its decorators and the comments above it included."""
    while at < len(lines) and lines[at].lstrip().startswith("#"):
        at += 1
    return at < len(lines) and lines[at].lstrip().startswith(("def ", "async def ", "class ", "@"))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
