"""The hidden tests of an exercise, as functions in the order of the file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.course import Course, CourseError, Exercise


@dataclass(frozen=True)
class HiddenTest:
    """One test function, to be run as a check."""

    name: str
    about: str
    function: Callable[..., None]
    weight: float
    needs: tuple[str, ...]
    wants_rng: bool
    file: str

    @property
    def is_property(self) -> bool:
        """Whether it draws its arguments (`given`), so that a failure has an example to run again."""
        return hasattr(self.function, "run_example")


def collect(course: Course, exercise: Exercise) -> list[HiddenTest]:
    """The hidden tests. Raises CourseError if there is none, or if one `needs` a check that does not come before it."""
    path = course.tests_path(exercise)
    module = load(path, f"hidden_{exercise.chapter.replace('.', '_')}_{exercise.slug}")
    tests: list[HiddenTest] = []
    for name, function in vars(module).items():
        if not name.startswith("test_") or not callable(function):
            continue
        doc = inspect.getdoc(function) or ""
        test = HiddenTest(
            name.removeprefix("test_"),
            doc.split("\n\n")[0].replace("\n", " ").strip(),
            function,
            float(getattr(function, "__points__", 1.0)),
            tuple(getattr(function, "__needs__", ())),
            "rng" in inspect.signature(function).parameters,
            str(path),
        )
        earlier = {known.name for known in tests}
        if unknown := [need for need in test.needs if need not in earlier]:
            raise CourseError(f"{path}: {name} needs {unknown[0]}, which is no check before it")
        tests.append(test)
    if not tests:
        raise CourseError(f"{path}: no function test_...; write the hidden tests")
    return tests


def load(path: Path, name: str) -> Any:
    """Runs a trusted Python file of the course as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CourseError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except CourseError:
        raise
    except Exception as error:
        raise CourseError(f"{path}: {type(error).__name__}: {error}") from error
    return module
