"""What a worker may use: memory, processes, files. Applied once, in the worker, before it sees a submission.

Resource limits do most of it. They do not stop a fork bomb when the grader runs as root (RLIMIT_NPROC does not bind
root), so on Linux a seccomp filter lets an exercise that needs no processes start threads only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable
from typing import Protocol

MIB = 1024 * 1024
FILE_BYTES = 64 * MIB
OPEN_FILES = 256
_SPARE_TASKS = 64
"""Threads that the worker's own libraries may have running when RLIMIT_NPROC, which counts threads, is set."""


class Allowance(Protocol):
    """The part of an exercise's limits that the operating system enforces."""

    @property
    def memory_mib(self) -> int:
        """Memory that the submission may take beyond what the worker holds already."""

    @property
    def processes(self) -> int:
        """Processes that the submission may start itself."""


def apply(limits: Allowance) -> None:
    """Puts this process, for good, under `limits`. Does what the platform can do; `abilities` says what that is.

    Call it in the main thread of a freshly forked worker. An allocation too large then raises MemoryError (torch:
    RuntimeError), a file that grows too long OSError, and with `processes == 0` a fork OSError (EAGAIN).
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)
    die_with_parent()
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_FSIZE", FILE_BYTES)
    _limit("RLIMIT_NOFILE", OPEN_FILES)
    held = _address_space()
    if held is not None:
        _limit("RLIMIT_AS", held + limits.memory_mib * MIB)
    if not _is_root():
        _limit("RLIMIT_NPROC", _tasks_of_this_user() + limits.processes + _SPARE_TASKS)
    if limits.processes == 0:
        # Last: the filter also refuses to raise limits again.
        _refuse_processes()


def die_with_parent() -> None:
    """Ends this process as soon as the thread that forked it ends, so that no worker outlives its judge (Linux)."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def no_new_privileges() -> bool:
    """Gives up, for good, what set-user-id programs could bring; the kernel asks it of who wants to restrict itself."""
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1) == 0


def abilities() -> dict[str, str]:
    """What limits mean on this machine, in words, for `grade doctor`."""
    if os.name != "posix":
        return dict.fromkeys(("memory", "processes", "files"), "not limited on this platform; only time is")
    found = {"files": f"at most {FILE_BYTES // MIB} MiB a file, {OPEN_FILES} open files, no core dumps"}
    found["memory"] = (
        "limited (RLIMIT_AS)"
        if _address_space() is not None
        else "not limited: this platform does not enforce RLIMIT_AS"
    )
    if _can_filter():
        found["processes"] = "none, unless an exercise needs some (seccomp filter: threads only)"
    elif _is_root():
        found["processes"] = "not limited: RLIMIT_NPROC does not bind root and there is no seccomp filter here"
    else:
        found["processes"] = "limited by RLIMIT_NPROC, which counts every process of this user"
    return found


# -- resource limits --------------------------------------------------------------------------------------------------


def _limit(name: str, value: int) -> None:
    """Lowers one limit, soft and hard; never raises what was set from outside."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _address_space() -> int | None:
    """Bytes of address space that this process has, where the kernel tells (and enforces RLIMIT_AS): Linux."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _tasks_of_this_user() -> int:
    """Threads of this user on the whole machine: RLIMIT_NPROC is compared with that number."""
    me, tasks = os.getuid(), 0
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat().st_uid == me:
                        tasks += len(os.listdir(f"/proc/{entry.name}/task"))
    return tasks


# -- the filter -------------------------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 21, 22, 38
_MODE_FILTER = 2
_CLONE_THREAD = 0x00010000
_X32_BIT = 0x40000000
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

# Offsets in struct seccomp_data (both architectures are little-endian: the low half of an argument comes first).
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    "x86_64": {
        "clone": 56, "fork": 57, "vfork": 58, "clone3": 435,
        "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
        "pidfd_send_signal": 424, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
        "setrlimit": 160, "prlimit64": 302,
    },
    "aarch64": {
        "clone": 220, "clone3": 435,
        "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
        "pidfd_send_signal": 424, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
        "setrlimit": 164, "prlimit64": 261,
    },
}  # fmt: skip

# Classic BPF, as in linux/filter.h.
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

Instruction = tuple[int, int, int, int]


def _can_filter() -> bool:
    return sys.platform == "linux" and platform.machine() in _CALLS and _prctl(_PR_GET_SECCOMP) >= 0


def _refuse_processes() -> None:
    """Installs the filter: no new process, no signal to another one, no higher limits. Skipped where there is none."""
    if not _can_filter() or not no_new_privileges():
        return
    program = _program(platform.machine(), os.getpid())
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    content = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a 16-bit length, then a pointer at its natural alignment
    header = struct.pack("@HP", len(program), ctypes.addressof(content))
    pointer = ctypes.create_string_buffer(header, len(header))
    _prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(pointer))


def _program(machine: str, pid: int) -> list[Instruction]:
    """The filter as BPF. Each rule is a block that returns, or is jumped over; the last word is: allowed."""
    calls = _CALLS[machine]
    refused = _give(errno.EPERM)
    program = [
        _load(_ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        refused,  # 32-bit calls of a 64-bit process have other numbers
        _load(_NUMBER),
    ]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), refused]

    def rule(name: str, *body: Instruction) -> None:
        if name in calls:
            program.extend([(_EQUAL, 0, len(body), calls[name]), *body])

    rule("fork", _give(errno.EAGAIN))
    rule("vfork", _give(errno.EAGAIN))
    # clone3 hides its flags behind a pointer. Without it glibc starts threads through clone, whose flags can be read.
    rule("clone3", _give(errno.ENOSYS))
    rule("clone", _load(_ARGUMENTS), (_HAS_BIT, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), _give(errno.EAGAIN))
    own = [_load(_ARGUMENTS), (_EQUAL, 0, 1, pid), (_RETURN, 0, 0, _ALLOW)]
    rule("kill", *own, (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW), refused)
    rule("tgkill", *own, refused)
    for name in ("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
        rule(name, refused)
    for name in ("ptrace", "process_vm_readv", "process_vm_writev", "setrlimit"):
        rule(name, refused)
    limit = _ARGUMENTS + 2 * 8
    rule(
        "prlimit64",  # reading a limit passes no new one
        _load(limit),
        (_EQUAL, 0, 3, 0),
        _load(limit + 4),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        refused,
    )
    program.append((_RETURN, 0, 0, _ALLOW))
    return program


def _load(offset: int) -> Instruction:
    return _LOAD, 0, 0, offset


def _give(number: int) -> Instruction:
    return _RETURN, 0, 0, _ERRNO | number


def _prctl(operation: int, *arguments: int) -> int:
    try:
        prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError, TypeError):
        return -1
    return prctl(ctypes.c_int(operation), *(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]))
