"""Files and connections that a worker may reach, by Landlock (Linux 5.13 and later; see landlock(7)).

Without it a submission runs as the user who grades, and could read the tests and the solutions from the disk, write
into the learner's files, or open `/proc/<judge>/mem`. Under it a worker sees the system and Python's libraries, writes
in its own folder, and may not trace, and so not read the memory of, any process but itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from grader.worker.limits import no_new_privileges

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls; the same numbers on every architecture."""
_VERSION_ONLY = 1
_BENEATH = 1

# Rights on files and folders, in the order of linux/landlock.h.
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_SEE = _EXECUTE | _READ | _LIST

COVERS_TCP = 4
"""The first version that covers TCP (Linux 6.7); no version covers UDP."""
_TCP = 0b11
"""Binding and connecting."""
_SCOPES = 0b11
"""Abstract sockets, and signals, of processes outside."""

_in_force = [False]

_PACKAGE = Path(__file__).resolve().parents[1]
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix/store", "/sys")
_PROC = (
    "cpuinfo",
    "devices",
    "driver",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "sys",
    "uptime",
    "version",
    "vmstat",
)
"""What is not about a process: /proc/kcore is all memory of the machine."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "dri")


def version() -> int:
    """The version of Landlock that this kernel offers; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, _system_call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_ONLY)))


@functools.cache
def rules(folder: str, network: bool) -> int | None:
    """A descriptor of the rules, to be made once and used by every worker that is forked later; None without Landlock.

    Args:
        folder: Where workers may write.
        network: Whether they may use TCP.
    """
    known = version()
    if known == 0:
        return None
    rights = _RIGHTS_BY_VERSION[min(known, 5)]
    words = [rights]
    if known >= COVERS_TCP:
        words.append(0 if network else _TCP)
    if known >= 6:
        words.append(_SCOPES)
    attributes = struct.pack(f"={len(words)}Q", *words)
    descriptor = _system_call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if descriptor < 0:
        return None
    os.set_inheritable(descriptor, False)
    for path in (*_readable(), *(f"/proc/{name}" for name in _PROC)):
        _allow(descriptor, path, _SEE)
    for path in _libraries():
        _allow(descriptor, path, _LIST)
    devices = [f"/dev/{name}" for name in _DEVICES]
    with contextlib.suppress(OSError):
        devices += [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia")]
    for path in (folder, *devices):
        _allow(descriptor, path, rights)
    return descriptor


def restrict(descriptor: int) -> None:
    """Puts this thread, and what it starts, under the rules for good; `is_in_force` says whether the kernel did."""
    _allow(descriptor, f"/proc/{os.getpid()}", _SEE)
    _in_force[0] = no_new_privileges() and _system_call(_RESTRICT, ctypes.c_int(descriptor), ctypes.c_uint32(0)) == 0


def is_in_force() -> bool:
    """Whether this process is under rules."""
    return _in_force[0]


def _readable() -> Iterator[str]:
    """The system, Python and its libraries, and the worker's half of the grader: not the course."""
    secret = _secret()
    for path in {*_SYSTEM, *_libraries()}:
        yield from _without(secret, os.path.realpath(path))
    yield str(_PACKAGE / "worker")
    yield str(_PACKAGE / "__init__.py")


def _libraries() -> set[str]:
    """Folders of Python and of what is installed for it; Python also lists them, to find modules."""
    secret = _secret()
    searched = {path for path in sys.path if path and not _is_beneath(os.path.realpath(path), secret)}
    return {sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(None, sysconfig.get_paths().values()), *searched}


def _without(secret: str, path: str) -> Iterator[str]:
    """The path; if it holds the secret folder, what lies in it beside that."""
    if not _is_beneath(secret, path):
        yield path
    elif path != secret:
        with contextlib.suppress(OSError):
            for entry in os.scandir(path):
                yield from _without(secret, os.path.realpath(entry.path))


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _secret() -> str:
    """The folder that holds solutions and hidden tests: the checkout, or the installed package."""
    checkout = _PACKAGE.parent
    return str(checkout if (checkout / "solutions").is_dir() else _PACKAGE)


def _allow(descriptor: int, path: str, rights: int) -> None:
    """Adds a rule; what does not exist needs none."""
    with contextlib.suppress(OSError):
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(target).st_mode):
                rights &= _OF_FILES
            rule = struct.pack("=Qi", rights, target)
            _system_call(_ADD, ctypes.c_int(descriptor), ctypes.c_int(_BENEATH), rule, ctypes.c_uint32(0))
        finally:
            os.close(target)


def _system_call(number: int, *arguments: object) -> int:
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError, TypeError):
        return -1
    return int(call(ctypes.c_long(number), *arguments))
