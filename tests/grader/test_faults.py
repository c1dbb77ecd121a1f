"""What broken, hostile or unlucky submissions do must cost a check, or the exercise, and never the report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toy_course import COUNT, DOUBLE, SOLUTION, checks, grade, toy_course

from grader.judge import Judge
from grader.report import Outcome


@pytest.fixture(scope="module")
def toy_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(toy_course(tmp_path_factory.mktemp("course")), kinds=["torch"], patience=2) as judge:
        yield judge


def test_the_solution_passes(toy_judge: Judge) -> None:
    report = grade(toy_judge, SOLUTION)
    assert report.passed, report
    assert report.points == 10


def test_a_mistake_is_named(toy_judge: Judge) -> None:
    doubles, counts = checks(grade(toy_judge, "def double(x):\n    return x.square()\n" + COUNT))
    assert [mistake.name for mistake in doubles.mistakes] == ["squares"]
    assert counts.outcome is Outcome.PASSED


def test_an_unlisted_mistake_is_not_guessed(toy_judge: Judge) -> None:
    doubles, _ = checks(grade(toy_judge, "def double(x):\n    return x * 3\n" + COUNT))
    assert doubles.outcome is Outcome.FAILED
    assert doubles.mistakes == ()


FAULTS = {
    "endless loop": ("while True: pass", "no result within 4 s"),
    "deep recursion": ("f = lambda n: f(n + 1)\n    return f(0)", "RecursionError"),
    "bottomless recursion": (
        "import sys\n    sys.setrecursionlimit(10**9)\n    f = lambda n: [f(n + 1)]\n    return f(0)",
        "crashed|recursion|killed|memory|no result",
    ),
    "100 GB of torch": ("import torch\n    return torch.ones(25 * 10**9)", "out of memory"),
    "100 GB of Python": ("return bytearray(10**11)", "out of memory"),
    "segfault": ("import ctypes\n    ctypes.string_at(0)", "SIGSEGV"),
    "os._exit": ("import os\n    os._exit(0)", "ended the process"),
    "sys.exit": ("import sys\n    sys.exit(0)", "sys.exit"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "BaseException": ("raise BaseException('x')", "BaseException: x"),
    "closed files": ("import os\n    os.closerange(0, 1000)\n    return x * 2", "closed the connection"),
    "fork bomb": ("import os\n    while True: os.fork()", "BlockingIOError|Resource temporarily"),
    "wrong type": ("return [2 * float(v) for v in x.ravel()]", "list"),
    "NaN": ("return x * float('nan')", "NaN|nan"),
    "None": ("return None", "None"),
    "wrong dtype": ("return x.double() * 2 if False else (x * 2).int()", "int32|dtype"),
    "wrong shape": ("return (x * 2)[:1]", "shape"),
    "mutates": ("x *= 2\n    return x.clone()", "changed its argument x"),
    "alias": ("x = x.set_(x.untyped_storage(), 0, (2, 3), (3, 1))\n    return x", "off|wrong|error|memory|tolerance"),
    "subclass": (
        "import torch\n    class Evil(torch.Tensor): pass\n    return (x * 2).as_subclass(Evil)",
        "Evil",
    ),
    "forbidden": ("import torch\n    return torch.softmax(x, 0)", "not allowed"),
    "forbidden and swallowed": (
        "import torch\n    try: torch.softmax(x, 0)\n    except BaseException: pass\n    return x * 2",
        "not allowed",
    ),
    "always equal": ("class Equal:\n        def __eq__(self, other): return True\n    return Equal()", "Equal"),
    "wrong signature": ("return x * 2\ndef double(x, y):\n    return x", "argument"),
    "missing function": ("return x\ndel double", "has no double"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_one_check(toy_judge: Judge, name: str) -> None:
    import re

    body, message = FAULTS[name]
    doubles, counts = checks(grade(toy_judge, f"def double(x):\n    {body}\n" + COUNT))
    assert doubles.outcome is Outcome.FAILED
    assert doubles.points == 0
    said = " ".join((doubles.message, doubles.got, doubles.expected, doubles.where))
    assert re.search(message, said), said
    assert counts.outcome is Outcome.PASSED, counts


def test_returning_the_argument_fails(toy_judge: Judge) -> None:
    source = "def double(x):\n    return x.mul_(1)\n" + COUNT
    doubles, _ = checks(grade(toy_judge, source))
    assert doubles.outcome is Outcome.FAILED


def test_an_alias_of_an_argument_is_found(toy_judge: Judge) -> None:
    source = (
        "import torch\ndef double(x):\n    return torch.as_strided(x, (2, 3), (0, 2))[:] if x.sum() else x\n" + COUNT
    )
    doubles, _ = checks(grade(toy_judge, source))
    assert doubles.outcome is Outcome.FAILED


def test_printing_a_gigabyte_is_cut(toy_judge: Judge) -> None:
    source = "def double(x):\n    for _ in range(1024): print('x' * 2**20)\n    return x * 2\n" + COUNT
    doubles, counts = checks(grade(toy_judge, source))
    assert len(doubles.output) < 100_000
    assert counts.outcome is Outcome.PASSED


def test_prints_are_shown_with_their_check(toy_judge: Judge) -> None:
    source = "def double(x):\n    print('shape', tuple(x.shape))\n    return x * 2\n" + COUNT
    doubles, counts = checks(grade(toy_judge, source))
    assert doubles.outcome is Outcome.PASSED
    assert doubles.output == "shape (2, 3)\n"
    assert counts.output == ""


def test_an_endless_generator_costs_one_check(toy_judge: Judge) -> None:
    doubles, counts = checks(grade(toy_judge, DOUBLE + "def count(n):\n    while True: yield 0\n"))
    assert doubles.outcome is Outcome.PASSED
    assert counts.outcome is Outcome.FAILED


def test_threads_that_never_end_cost_nothing(toy_judge: Judge) -> None:
    source = "import threading, time\nthreading.Thread(target=lambda: time.sleep(10**6)).start()\n" + DOUBLE + COUNT
    assert grade(toy_judge, source).passed


def test_monkeypatched_libraries_stay_in_the_worker(toy_judge: Judge) -> None:
    source = """
        import builtins, torch
        torch.allclose = torch.equal = lambda *a, **k: True
        torch.Tensor.__eq__ = lambda *a: True
        builtins.all = builtins.any = lambda *a: True
        def double(x):
            return x * 3
        def count(n):
            yield from range(n)
    """
    doubles, _ = checks(grade(toy_judge, source))
    assert doubles.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def double(x:\n", "SyntaxError"),
        ("import nosuchmodule\n", "ModuleNotFoundError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import os\nos._exit(0)\n", "ended the process"),
        ("while True: pass\n", "stuck here"),
        ("raise SystemExit\n", "SystemExit"),
        ("from grader.judge import Judge\n", "grader is not allowed"),
        ("try:\n    import grader.worker.probes\nexcept ImportError:\n    pass\n", "grader is not allowed"),
        ("import torch\ntorch.softmax(torch.ones(2), 0)\n", "torch.softmax is not allowed"),
    ],
)
def test_a_file_that_cannot_be_loaded_fails_every_check(
    toy_judge: Judge, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    import re

    from grader.judge import judge

    monkeypatch.setattr(judge, "LOAD_SECONDS", 2.0)
    report = grade(toy_judge, source)
    assert re.search(message, report.problem), report.problem
    assert [check.outcome for check in report.checks] == [Outcome.FAILED] * 2
    assert report.points == 0


def test_an_exception_shows_the_learners_own_lines_only(toy_judge: Judge) -> None:
    source = "def helper(x):\n    return x.nosuch()\n\ndef double(x):\n    return helper(x)\n" + COUNT
    doubles, _ = checks(grade(toy_judge, source))
    assert "AttributeError" in doubles.message
    assert "line 5, in double\n    return helper(x)" in doubles.traceback
    assert "line 2, in helper\n    return x.nosuch()" in doubles.traceback
    assert "grader" not in doubles.traceback
