"""The learner's files: where they are, and how they are made, updated and reset without ever losing an edit.

A workspace is the checkout of the course itself, or a folder made by `grade init` and marked by .llm-by-hand.json.
It remembers the SHA-256 of every file as it was issued: whatever still has it was not edited.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import __version__
from grader.course import Course, Exercise
from grader.files import keep_backup, write_atomically
from grader.stubs import derived_stub

MARK = ".llm-by-hand.json"
SCHEMA = 1

README = """\
Your workspace for LLMs by Hand, a course in LLM engineering that you take by writing the code.
Edit the files in exercises/, then run `grade 4.2` (a chapter) or `grade next` here; `grade list` shows everything.
`grade init .` fetches new chapters and never overwrites what you wrote; `grade reset 4.2/x` starts an exercise again.
"""

AGENTS = """\
# For coding assistants: tutor, don't solve

This folder is somebody's course work. Its owner is here to learn LLM engineering by writing the code in `exercises/`
by hand; an exercise that you solve teaches them nothing. Help as a good tutor does:

- Don't write, complete or edit the code of an exercise, also not in pieces, as a diff or translated from somewhere
  else, unless its owner says in so many words that they give this exercise up.
- Ask first: what did they expect, what happened, what have they tried? Then give the smallest hint that gets them on.
- Explain ideas, formulas, shapes, papers and library functions freely, with examples that are not the exercise: other
  numbers, another function, a smaller case by hand.
- Let the evidence speak: read the report of `grade` with them, and have them predict a value, a shape or a cost before
  they run it. A failed check shows the call, what came back and what was expected.
- Point to the chapter page (README.md beside the exercise) and to `grade hint 4.2/x` before you hint yourself.
- Don't open reference solutions or hidden tests, and don't run `grade solution`.
- Once an exercise passes, review it as you would a colleague's code: clarity, cost, numerical safety, what a library
  does differently.

Everything else here (notes, experiments, plots, git, the editor, Python itself) you may help with as usual.
"""


class WorkspaceError(Exception):
    """A folder that can't be used as a workspace. The message says what to do."""


@dataclass(frozen=True)
class Change:
    """What `init` or `update` did to the files of a workspace; paths are relative to it."""

    workspace: Path
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    """Not edited, so replaced by the course's new version."""
    beside: tuple[str, ...] = ()
    """Edited, and changed in the course: the new version is in the same place with .new at the end."""
    edited: tuple[str, ...] = ()
    """Edited, and not changed in the course: left alone."""


def find_workspace(start: Path) -> Path:
    """The workspace in which `start` lies: the nearest folder upwards that is one. Raises WorkspaceError."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / MARK).is_file() or _is_checkout(folder):
            return folder
    raise WorkspaceError(f"{start} is in no workspace; `grade init my-course` makes one, --workspace DIR names one")


def submission_path(workspace: Path, exercise: Exercise) -> Path:
    """The learner's file of an exercise."""
    return workspace / "exercises" / exercise.file


def init(course: Course, folder: Path) -> Change:
    """Make a workspace in a new or empty folder, or update the one that is there. Raises WorkspaceError."""
    folder = folder.resolve()
    if (folder / MARK).is_file():
        return update(course, folder)
    if _is_checkout(folder):
        raise WorkspaceError(
            f"{folder} is the course itself, and a workspace already: edit the files in exercises/ there"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except FileExistsError:
        raise WorkspaceError(f"{folder} is a file; name a folder") from None
    except OSError as error:
        raise WorkspaceError(f"{folder} can't be made or read: {error}") from None
    if others:
        some = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise WorkspaceError(f"{folder} is not empty ({some}) and no workspace; name a new or an empty folder")
    # The mark comes first: if this is interrupted, the next `grade init` goes on where it stopped.
    _write_issued(folder, {})
    return update(course, folder)


def update(course: Course, workspace: Path) -> Change:
    """Bring a workspace up to date with the course. An edited file stays; its new version is put beside it."""
    if not (workspace / MARK).is_file():
        raise WorkspaceError(f"{workspace} was not made by `grade init`; a checkout is updated with git")
    issued = _read_issued(workspace)
    added: list[str] = []
    updated: list[str] = []
    beside: list[str] = []
    edited: list[str] = []
    try:
        for name, content in _files(course):
            path = workspace / name
            new = _sha256(content)
            if not path.exists():
                write_atomically(path, content)
                added.append(name)
            elif (current := _sha256(path.read_bytes())) == new:
                pass
            elif current == issued.get(name):
                write_atomically(path, content)
                updated.append(name)
            elif issued.get(name) == new:
                edited.append(name)
            else:
                _put_beside(workspace, path, content)
                beside.append(name)
            issued[name] = new
    except OSError as error:
        raise WorkspaceError(f"{workspace} can't be written: {error}") from None
    finally:
        _write_issued(workspace, issued)
    return Change(workspace, tuple(added), tuple(updated), tuple(beside), tuple(edited))


def reset(course: Course, workspace: Path, exercise: Exercise) -> Path | None:
    """Put the stub back; returns the backup of what was there, or None if that was the stub or nothing."""
    path = submission_path(workspace, exercise)
    content = derived_stub(course, exercise).encode()
    backup = None
    try:
        if path.exists() and path.read_bytes() != content:
            backup = keep_backup(workspace, path)
        write_atomically(path, content)
        if (workspace / MARK).is_file():
            issued = _read_issued(workspace)
            _write_issued(workspace, issued | {f"exercises/{exercise.file}": _sha256(content)})
    except OSError as error:
        raise WorkspaceError(f"{path} can't be reset: {error}") from None
    return backup


def _files(course: Course) -> Iterator[tuple[str, bytes]]:
    """Every file that a workspace is given, by its name relative to the workspace."""
    yield "README.md", README.encode()
    yield "AGENTS.md", AGENTS.encode()
    for chapter in course.chapters():
        if not chapter.built:
            continue
        page = course.root / "exercises" / chapter.folder / "README.md"
        if page.is_file():
            yield f"exercises/{chapter.folder}/README.md", page.read_bytes()
        for exercise in course.page(chapter.id).exercises:
            # From the solution: in a checkout the file in exercises/ may hold its owner's own work.
            yield f"exercises/{exercise.file}", derived_stub(course, exercise).encode()


def _put_beside(workspace: Path, path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    if beside.exists() and beside.read_bytes() != content:
        keep_backup(workspace, beside)
    write_atomically(beside, content)


def _is_checkout(folder: Path) -> bool:
    return (folder / "tracks.yaml").is_file() and (folder / "exercises").is_dir()


def _read_issued(workspace: Path) -> dict[str, str]:
    path = workspace / MARK
    remedy = "restore it, or write {} into it: then every file counts as edited"
    try:
        mark = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{path} can't be read: {error}; {remedy}") from None
    issued = mark.get("issued", {}) if isinstance(mark, dict) else None
    if not isinstance(issued, dict):
        raise WorkspaceError(f"{path} is damaged; {remedy}")
    schema = mark.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise WorkspaceError(f"{workspace} was made by a newer version of the grader; upgrade llm-by-hand")
    return {str(name): str(sha256) for name, sha256 in issued.items()}


def _write_issued(workspace: Path, issued: dict[str, str]) -> None:
    mark = {
        "about": "The SHA-256 of every file as `grade init` issued it: it tells what was edited. Don't edit this one.",
        "schema": SCHEMA,
        "version": __version__,
        "issued": issued,
    }
    write_atomically(workspace / MARK, json.dumps(mark, indent=1, sort_keys=True) + "\n")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
