"""What is on this machine, and what that means for a learner.

torch is never imported into this process: a broken build may crash or hang, so it is tried in a process of its own.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

TORCH_SECONDS = 120
OLDEST_PYTHON = (3, 11)


class State(StrEnum):
    """How a finding stands."""

    FINE = "fine"
    ABSENT = "absent"
    """Not here; some things are not possible, nothing is broken."""
    BROKEN = "broken"
    """Needed, and it does not work."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    value: str
    meaning: str = ""
    """What it means for the learner, and what to do about it; empty where nothing follows."""


def examine(state: Path | None = None, workspace: Path | None = None) -> Iterator[Finding]:
    """Every finding, as it is made; the slow ones (torch, the GPU) last but quick ones first."""
    yield _python()
    yield from _packages()
    yield _course()
    yield _workspace(workspace)
    yield _state(state)
    yield _isolation()
    yield _bubblewrap()
    yield from _torch()


def _python() -> Finding:
    version = platform.python_version()
    where = f"{version} on {platform.system()} {platform.machine()}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return Finding("python", State.BROKEN, where, f"the course needs Python {oldest} or newer")
    return Finding("python", State.FINE, where)


def _packages() -> Iterator[Finding]:
    """From the metadata of what is installed; nothing is imported."""
    for name in ("llm-by-hand", "numpy", "scipy", "hypothesis", "pytest", "msgpack", "click", "rich"):
        try:
            yield Finding(name, State.FINE, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding(name, State.BROKEN, "not installed", f"pip install {name}")


def _course() -> Finding:
    from grader.course import CourseError, load

    try:
        course = load()
        chapters = list(course.chapters())
        built = sum(chapter.built for chapter in chapters)
        exercises = sum(1 for _ in course.exercises())
    except CourseError as error:
        return Finding("course", State.BROKEN, str(error), "install llm-by-hand again, or unset LLM_BY_HAND_COURSE")
    return Finding("course", State.FINE, f"{exercises} exercises in {built} of {len(chapters)} chapters, {course.root}")


def _workspace(given: Path | None) -> Finding:
    from grader.workspace import WorkspaceError, find_workspace

    try:
        return Finding("workspace", State.FINE, str(find_workspace(given or Path.cwd())))
    except WorkspaceError:
        return Finding("workspace", State.ABSENT, "none here", "grade init my-course makes one; then work inside it")


def _state(given: Path | None) -> Finding:
    from grader.progress import ProgressError, open_store

    store = open_store(given)
    try:
        passed = len(store.passed_exercises())
        folder = next(place for place in (store.path.parent, *store.path.parent.parents) if place.exists())
        if not os.access(folder, os.W_OK):
            raise ProgressError(f"{folder} can't be written")
    except ProgressError as error:
        return Finding("progress", State.BROKEN, str(store.path), f"{error}; --state DIR keeps it elsewhere")
    return Finding("progress", State.FINE, f"{passed} exercises passed, {store.path}", "; ".join(store.notices))


def _isolation() -> Finding:
    from grader.worker import landlock, limits

    if os.name != "posix":
        return Finding("isolation", State.ABSENT, "none", "your code runs without limits: use Linux, macOS or WSL")
    known = "; ".join(f"{what}: {how}" for what, how in limits.abilities().items())
    reach = "it may read and write what you may (Landlock, in Linux 5.13 and later, would prevent that)"
    if landlock.version():
        reach = "it reads the system's files and Python's and writes in a folder of its own (Landlock)"
    if landlock.version() >= landlock.COVERS_TCP:
        reach += ", without TCP connections"
    return Finding("isolation", State.FINE, "process", f"your code runs in its own process; {known}; {reach}")


def _bubblewrap() -> Finding:
    """Really tried: many systems have the program and forbid what it needs."""
    try:
        from grader.judge.workers import sandbox_arguments  # the very sandbox that the judge uses
    except ImportError as error:
        return Finding(
            "judge", State.BROKEN, f"it can't be imported: {error}", "pip install --force-reinstall llm-by-hand"
        )
    without = "--isolation sandbox is not possible; you need it only to grade other people's code"
    program = shutil.which("bwrap")
    if program is None:
        return Finding("bubblewrap", State.ABSENT, "not installed", without)
    trial = [program, *sandbox_arguments(), sys.executable, "-c", "import numpy"]
    try:
        done = subprocess.run(trial, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("bubblewrap", State.ABSENT, f"{program} does not run: {error}", without)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Finding("bubblewrap", State.ABSENT, f"{program} is here and may not sandbox: {said}", without)
    return Finding("bubblewrap", State.FINE, program, "--isolation sandbox works: no network, a read-only system")


# What the other process tells about itself. Triton's interpreter needs no GPU, so importing it is the test.
_TRIAL = """
import json
found = {}
try:
    import torch
    found["torch"] = torch.__version__
    found["cuda_build"] = torch.version.cuda
    (torch.randn(8, 8) @ torch.randn(8, 8)).sum().item()
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
except Exception as error:
    found["torch_error"] = f"{type(error).__name__}: {error}"
try:
    import triton
    import triton.language
    found["triton"] = triton.__version__
except Exception as error:
    found["triton_error"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(found))
"""


def _torch() -> Iterator[Finding]:
    found = _tried()
    if "torch" in found and "torch_error" not in found:
        build = f"built for CUDA {found['cuda_build']}" if found.get("cuda_build") else "CPU build"
        yield Finding("torch", State.FINE, f"{found['torch']}, {build} (imported in a process of its own)")
    else:
        said = str(found.get("torch_error", "not installed"))
        yield Finding("torch", State.BROKEN, said, "only python and numpy exercises can be graded: pip install torch")
    if "triton" in found:
        yield Finding("triton", State.FINE, f"{found['triton']} (imported in the same process)")
    else:
        said = str(found.get("triton_error", "not installed"))
        why = "Triton has no wheels for this system; " if sys.platform != "linux" else "pip install triton; "
        yield Finding("triton", State.ABSENT, said, f"{why}checks of Triton kernels are not measured")
    if "gpu" in found:
        yield Finding("gpu", State.FINE, f"{found['gpu']}, compute capability {found['capability']}")
    else:
        meaning = "kernels are interpreted and compiled, not timed; timing counts as not measured and costs no points"
        yield Finding("gpu", State.ABSENT, "none that torch can use", meaning)


def _tried(run: Callable[..., Any] = subprocess.run) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as empty:  # so that no torch.py of the current folder is imported
        try:
            done = run(
                [sys.executable, "-I", "-c", _TRIAL],
                capture_output=True,
                text=True,
                timeout=TORCH_SECONDS,
                cwd=empty,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"torch_error": f"no answer: {error}", "triton_error": "not tried"}
    try:
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"torch_error": f"the process that imports it ended with {done.returncode}: {last}"}
    return found
