"""Stubs derived from solutions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from small_course import stub, write_course

from grader.course import CourseError, load
from grader.stubs import stale_stubs, stub_of, write_stubs

CASES = {
    "a function": (
        '''
        def f(x):
            """Doc."""
            ### BEGIN SOLUTION
            y = x + 1

            return y
            ### END SOLUTION
        ''',
        '''
        def f(x):
            """Doc."""
            raise NotImplementedError("4.2/x: write f")
        ''',
    ),
    "a method, an async method, a nested class": (
        '''
        class A:
            """Doc."""

            def __init__(self) -> None:
                super().__init__()
                ### BEGIN SOLUTION
                self.x = 1
                ### END SOLUTION

            async def f(self) -> int:
                ### BEGIN SOLUTION
                return 1
                ### END SOLUTION

            class B:
                @property
                def g(self) -> int:
                    ### BEGIN SOLUTION
                    return 2
                    ### END SOLUTION
        ''',
        '''
        class A:
            """Doc."""

            def __init__(self) -> None:
                super().__init__()
                raise NotImplementedError("4.2/x: write A.__init__")

            async def f(self) -> int:
                raise NotImplementedError("4.2/x: write A.f")

            class B:
                @property
                def g(self) -> int:
                    raise NotImplementedError("4.2/x: write A.B.g")
        ''',
    ),
    "helpers and imports at module level": (
        '''
        """Doc."""

        import math

        ### BEGIN SOLUTION
        import os

        ### END SOLUTION
        import torch

        LIMIT = 3
        ### BEGIN SOLUTION
        _X = os.sep
        ### END SOLUTION

        ### BEGIN SOLUTION


        def _helper():
            return math.pi


        ### END SOLUTION
        def f(x):
            """Doc."""
            ### BEGIN SOLUTION
            return _helper()
            ### END SOLUTION


        ### BEGIN SOLUTION
        def _other():
            return 1


        ### END SOLUTION
        ''',
        '''
        """Doc."""

        import math

        import torch

        LIMIT = 3


        def f(x):
            """Doc."""
            raise NotImplementedError("4.2/x: write f")
        ''',
    ),
    "a private method": (
        '''
        class A:
            """Doc."""

            ### BEGIN SOLUTION
            def _helper(self):
                return 1

            ### END SOLUTION
            def f(self):
                ### BEGIN SOLUTION
                return self._helper()
                ### END SOLUTION

            ### BEGIN SOLUTION
            def _last(self):
                return 1

            ### END SOLUTION


        B = A
        ''',
        '''
        class A:
            """Doc."""

            def f(self):
                raise NotImplementedError("4.2/x: write A.f")


        B = A
        ''',
    ),
    "several regions one after the other: the first raises": (
        """
        def f(x):
            ### BEGIN SOLUTION
            y = x
            ### END SOLUTION
            z = given(y)
            ### BEGIN SOLUTION
            w = z
            ### END SOLUTION
            if w:
                ### BEGIN SOLUTION
                w += 1
                ### END SOLUTION
            return w
        """,
        """
        def f(x):
            raise NotImplementedError("4.2/x: write f")
            z = given(y)
            # and the next step here
            if w:
                ...
            return w
        """,
    ),
    "regions in branches: each raises": (
        """
        def f(x):
            if x:
                ### BEGIN SOLUTION
                y = x
                ### END SOLUTION
            else:
                ### BEGIN SOLUTION
                y = 2
                ### END SOLUTION
            return y
        """,
        """
        def f(x):
            if x:
                raise NotImplementedError("4.2/x: write f")
            else:
                raise NotImplementedError("4.2/x: write f")
            return y
        """,
    ),
    "markers in a string are text": (
        '''
        def f(x):
            """Write between
            ### BEGIN SOLUTION
            and its end."""
            ### BEGIN SOLUTION
            return 1
            ### END SOLUTION
        ''',
        '''
        def f(x):
            """Write between
            ### BEGIN SOLUTION
            and its end."""
            raise NotImplementedError("4.2/x: write f")
        ''',
    ),
    "a function inside a function": (
        """
        def f(x):
            def g(y):
                ### BEGIN SOLUTION
                return y
                ### END SOLUTION

            ### BEGIN SOLUTION
            return g(x)
            ### END SOLUTION
        """,
        """
        def f(x):
            def g(y):
                raise NotImplementedError("4.2/x: write f.g")

            raise NotImplementedError("4.2/x: write f")
        """,
    ),
    "a kernel and its wrapper": (
        """
        import triton

        ### BEGIN SOLUTION
        import triton.language as tl


        @triton.jit
        def _kernel(x_ptr, n, BLOCK: tl.constexpr):
            tl.store(x_ptr, 0)


        ### END SOLUTION
        # The wrapper.
        def f(x):
            ### BEGIN SOLUTION
            _kernel[(1,)](x, 1, 2)
            ### END SOLUTION
        """,
        """
        import triton


        # The wrapper.
        def f(x):
            raise NotImplementedError("4.2/x: write f")
        """,
    ),
}


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


@pytest.mark.parametrize(("solution", "expected"), CASES.values(), ids=CASES)
def test_a_stub(solution: str, expected: str) -> None:
    assert stub_of(dedent(solution), "4.2/x") == dedent(expected)


def test_stubs_are_formatted(tmp_path: Path) -> None:
    for number, (solution, _) in enumerate(CASES.values()):
        (tmp_path / f"stub_{number}.py").write_text(stub_of(dedent(solution), "4.2/x"))
    try:
        import ruff  # noqa: F401
    except ImportError:
        pytest.skip("ruff is not installed")
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--diff", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_long_name_is_wrapped_as_a_formatter_would() -> None:
    name = "a_function_whose_name_is_rather_long_" * 3
    result = stub_of(f"def {name}():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n", "4.2/x")
    message = f"4.2/x: write {name}"
    assert result == f'def {name}():\n    raise NotImplementedError(\n        "{message}"\n    )\n'
    ast.parse(result)


def test_a_stub_raises_what_it_should() -> None:
    names: dict[str, object] = {}
    exec(stub_of(dedent(CASES["a function"][0]), "4.2/x"), names)
    with pytest.raises(NotImplementedError, match=re.escape("4.2/x: write f")):
        names["f"](1)  # type: ignore[operator]


REGION = "    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
FAULTS = {
    "s.py: line 2: ### BEGIN SOLUTION without ### END SOLUTION": "def f():\n    ### BEGIN SOLUTION\n    return 1\n",
    "s.py: line 3: ### END SOLUTION without ### BEGIN SOLUTION": "def f():\n    return 1\n    ### END SOLUTION\n",
    "s.py: line 3: ### BEGIN SOLUTION inside the region that began on line 2": (
        "def f():\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
    ),
    "s.py: nothing is left for the learner": "def f():\n    return 1\n",
    "s.py: this is not Python": "def f(:\n" + REGION,
    "s.py: line 2: '## BEGIN SOLUTION' is nearly a marker": "def f():\n    ## BEGIN SOLUTION\n    return 1\n",
    "s.py: line 2: '### Begin solution' is nearly a marker": "def f():\n    ### Begin solution\n    return 1\n",
    "s.py: line 2: '### BEGIN SOLUTION' is nearly a marker": "def f():\n    x = 1  ### BEGIN SOLUTION\n    return 1\n",
    "s.py: line 2: the region is empty": "def f():\n    ### BEGIN SOLUTION\n    # no\n    ### END SOLUTION\n    pass\n",
    "s.py: line 2: both markers must be indented": "def f():\n### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n",
    "s.py: line 3: both markers must be indented": (
        "def f():\n    if 1:\n        ### BEGIN SOLUTION\n        x = 1\n    ### END SOLUTION\n    return 1\n"
    ),
    "s.py: line 2: the region leaves f": (
        "def f():\n    ### BEGIN SOLUTION\n    return 1\n\ndef g():\n    x = 1\n    ### END SOLUTION\n    return 1\n"
    ),
    "s.py: the stub is not Python: line 2": (
        "if True:\n    ### BEGIN SOLUTION\n    x = 1\n    ### END SOLUTION\n\n\ndef f():\n" + REGION
    ),
}


@pytest.mark.parametrize(("message", "source"), FAULTS.items(), ids=[message[6:40] for message in FAULTS])
def test_a_fault_is_named_with_file_and_line(message: str, source: str) -> None:
    with pytest.raises(CourseError, match=re.escape(message)):
        stub_of(source, "4.2/x", "s.py")


class TestTheFiles:
    def test_the_stubs_of_the_course_are_those_of_its_solutions(self) -> None:
        course = load()
        assert [str(path.relative_to(course.root)) for path in stale_stubs(course)] == []

    def test_written_where_missing_or_stale(self, tmp_path: Path) -> None:
        course = load(write_course(tmp_path))
        assert write_stubs(course) == stale_stubs(course) == []
        dot, norm = (course.stub_path(exercise) for exercise in course.page("1.1").exercises)
        dot.unlink()
        norm.write_text("edited\n")
        assert stale_stubs(course) == [dot, norm]
        assert stale_stubs(course, ["2.1"]) == []
        assert write_stubs(course) == [dot, norm]
        assert dot.read_text() == stub("1.1/dot")
        (backup,) = tmp_path.glob(".backups/exercises/01_foundations/01_vectors/norm.*.py")
        assert backup.read_text() == "edited\n"

    def test_one_fault_does_not_hold_up_the_rest(self, tmp_path: Path) -> None:
        course = load(write_course(tmp_path))
        exercises = list(course.exercises())
        for exercise in exercises:
            course.stub_path(exercise).unlink()
        course.solution_path(exercises[0]).write_text("def f():\n    pass\n")
        course.solution_path(exercises[1]).unlink()
        (tmp_path / "exercises/02_models/01_attention/chapter.yaml").write_text("id: 3\n")
        with pytest.raises(CourseError) as caught:
            write_stubs(load(tmp_path))
        assert len(str(caught.value).splitlines()) == 3
        assert course.stub_path(exercises[2]).is_file()
