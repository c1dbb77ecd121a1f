"""Which code is the submission's own: what its file holds, and every code object that it makes and executes itself.

A code object says what file it comes from, but `compile(text, "elsewhere.py", "exec")` and `code.replace` may say
anything. So the interpreter's audit events are asked who executes what: code that the submission executes belongs to
it, and so does code that comes from no file of a library.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FrameType

_made: dict[int, CodeType] = {}
"""Code objects of the submission's that don't carry its file name, kept alive so that their ids stay theirs."""

_watched: set[str] = set()
"""File names of submissions whose `exec` is watched."""

_installed = False


def watch(filename: str) -> None:
    """From now on code that `filename` executes is remembered. An audit hook stays for the life of the process."""
    global _installed
    _watched.add(filename)
    if not _installed:
        _installed = True
        sys.addaudithook(_heard)


def is_made(code: CodeType) -> bool:
    """Whether a submission has made this code object and executed it."""
    return _made.get(id(code)) is code


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if event == "exec":
        code = arguments[0]
        if isinstance(code, CodeType) and code.co_filename not in _watched and _is_own(code):
            for part in _parts(code):
                _made[id(part)] = part
    elif event == "code.__new__" and _by_submission():
        # It is announced before it is there, so it could not be followed.
        raise RuntimeError("a submission writes its functions as functions: no code objects by hand")


def _is_own(code: CodeType) -> bool:
    return _by_submission() or not code.co_filename.startswith((*_LIBRARIES, "<"))


def _by_submission() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and (frame.f_code.co_filename in _watched or is_made(frame.f_code))


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def _libraries() -> tuple[str, ...]:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(sorted(os.path.join(folder, "") for folder in folders if folder))


_LIBRARIES = _libraries()
