"""Programs that are after the marks and not after the work. What they gain is written here; mostly it is nothing.

What cannot be kept from a submission that shares its process with the counting (see grader.worker.probes) is not
claimed here: these are the doors that take no more than a few lines.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_course import grade, toy_course

from grader import course
from grader.judge import Judge
from grader.report import Outcome, Report
from grader.worker import landlock

TESTS = '''
"""Hidden tests of a toy exercise."""

import torch
from grader.testing import close, equal, executed_lines, flops, require


def test_value(submission):
    """Twice x."""
    x = torch.randn(3, 5)
    close(submission.double(x), x.double() * 2)


def test_operators(submission):
    """The sum, compared by operators."""
    x = torch.rand(4)
    exact = float(x.double().sum())
    got = submission.total(x)
    require(abs(got - exact) <= 1e-5 and exact - 1 < got < exact + 1, "near the sum", got=got, expected=exact)


def test_items(submission):
    """The smallest and the largest, in order."""
    got = submission.ends(torch.rand(4) + 1)
    require(len(got) == 2 and 0 < got[0] < got[1] and bool(got), "two numbers in order", got=got)


def test_cost_flops(submission):
    """No products."""
    x = torch.randn(4, 4)
    with flops(submission) as cost:
        y = submission.double(x)
    cost.at_most(0, "no product")
    close(y, x.double() * 2)


def test_cost_lines(submission):
    """A handful of lines."""
    with executed_lines(submission) as cost:
        y = submission.count(1000)
    cost.at_most(100, "no loop over n")
    equal(y, 1000)
'''

SOLUTION = '''
"""A toy."""

from torch import Tensor


def double(x: Tensor) -> Tensor:
    """Twice x."""
    ### BEGIN SOLUTION
    return x * 2
    ### END SOLUTION


def total(x: Tensor) -> float:
    """The sum of x."""
    ### BEGIN SOLUTION
    return float(x.double().sum())
    ### END SOLUTION


def ends(x: Tensor) -> list[float]:
    """The smallest and the largest entry."""
    ### BEGIN SOLUTION
    return [float(x.min()), float(x.max())]
    ### END SOLUTION


def count(n: int) -> int:
    """n."""
    ### BEGIN SOLUTION
    return n
    ### END SOLUTION
'''

EVERYTHING = {"value", "operators", "items", "cost_flops", "cost_lines"}


@pytest.fixture(scope="module")
def toy_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    made = toy_course(tmp_path_factory.mktemp("course"), tests=TESTS, solution=SOLUTION)
    with Judge(made, kinds=["torch"], patience=2) as judge:
        yield judge


def passed(report: Report) -> set[str]:
    return {check.name for check in report.checks if check.outcome is Outcome.PASSED}


def test_the_solution_passes(toy_judge: Judge) -> None:
    assert passed(grade(toy_judge, SOLUTION)) == EVERYTHING


AGREEABLE = """
class {name}({base}):
    def yes(self, *others):
        return True

    def itself(self, *others):
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = yes
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __abs__ = __neg__ = __getitem__ = __round__ = itself

    def __len__(self):
        return 2

    def __hash__(self):
        return 1


def double(x):
    return {name}()


total = ends = count = double
"""


@pytest.mark.parametrize(("name", "base"), [("Agreeable", ""), ("Number", "float"), ("Text", "str"), ("Items", "list")])
def test_an_object_that_agrees_with_everything_gains_nothing(toy_judge: Judge, name: str, base: str) -> None:
    report = grade(toy_judge, AGREEABLE.format(name=name, base=base))
    assert passed(report) == set(), report


SUBCLASSES = """
import numpy
import torch


class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True


class A(numpy.ndarray):
    def __array_function__(self, function, types, args, kwargs):
        return True

    def __array_ufunc__(self, *args, **kwargs):
        return True


def double(x):
    return torch.zeros(x.shape).as_subclass(T)


def total(x):
    return numpy.zeros(()).view(A)


ends = total


def count(n):
    return type("I", (int,), {"__eq__": lambda self, other: True, "__hash__": int.__hash__})(3)
"""


def test_subclasses_of_arrays_and_numbers_gain_nothing(toy_judge: Judge) -> None:
    assert passed(grade(toy_judge, SUBCLASSES)) == set()


def test_nothing_of_the_judge_is_in_the_worker(toy_judge: Judge) -> None:
    report = grade(
        toy_judge,
        """
        import gc
        import sys

        def double(x):
            tests = [f for f in gc.get_objects() if getattr(f, "__name__", "").startswith("test_")]
            frame, secrets = sys._getframe(), []
            while frame is not None:
                secrets += [name for name in frame.f_locals if name in ("expected", "exact", "submission")]
                frame = frame.f_back
            raise ValueError(f"found {tests + secrets}")

        total = ends = count = double
        """,
    )
    assert report.checks[0].message == "ValueError: found []"


def test_replaced_libraries_change_no_verdict(toy_judge: Judge) -> None:
    report = grade(
        toy_judge,
        """
        import builtins
        import math
        import torch

        torch.allclose = torch.equal = math.isclose = builtins.all = builtins.any = lambda *a, **k: True
        torch.Tensor.__eq__ = torch.Tensor.__le__ = lambda self, other: True

        def double(x):
            return x * 3

        def total(x):
            return 2.5

        def ends(x):
            return [2.0, 1.0]

        def count(n):
            return 3
        """,
    )
    assert not passed(report) & {"value", "items", "cost_flops", "cost_lines"}


def test_seeds_are_not_known_in_advance(toy_judge: Judge) -> None:
    report = grade(
        toy_judge,
        """
        import torch

        torch.manual_seed(0)
        GUESS = torch.randn(3, 5)

        def double(x):
            return GUESS * 2

        def total(x):
            return 2.5
        """,
    )
    assert passed(report) <= {"operators"}


HONEST = """
import torch


def double(x):
    return x * 2


def total(x):
    return float(x.double().sum())


def ends(x):
    return [float(x.min()), float(x.max())]


def count(n):
    return n


def loop(n):
    k = 0
    for _ in range(n):
        k += 1
    return k
"""

HIDDEN_WORK = {
    "in a string": """
def count(n):
    names = {}
    exec("def f(n):\\n    k = 0\\n    for _ in range(n):\\n        k += 1\\n    return k", names)
    return names["f"](n)
""",
    "under another file's name": """
names = {}
text = "def f(n):\\n    k = 0\\n    for _ in range(n):\\n        k += 1\\n    return k"
exec(compile(text, torch.__file__, "exec"), names)
count = names["f"]
""",
    "in a file of its own": """
import sys

with open("elsewhere.py", "w") as file:
    file.write("def f(n):\\n    k = 0\\n    for _ in range(n):\\n        k += 1\\n    return k")
sys.path.insert(0, ".")
from elsewhere import f as count
""",
    "with a false origin": """
import types

count = types.FunctionType(loop.__code__.replace(co_filename=torch.__file__), {"range": range})
""",
    "with the counting switched off": """
import sys


def count(n):
    sys.settrace(None)
    if hasattr(sys, "monitoring"):
        for tool in range(6):
            if sys.monitoring.get_tool(tool):
                sys.monitoring.set_events(tool, 0)
    return loop(n)
""",
    "in a thread that was there before": """
import queue
import threading

questions, answers = queue.Queue(), queue.Queue()


def work():
    while True:
        answers.put(loop(questions.get()))


threading.Thread(target=work, daemon=True).start()


def count(n):
    questions.put(n)
    return answers.get()
""",
}


@pytest.mark.parametrize("where", HIDDEN_WORK)
def test_work_is_counted_wherever_it_hides(toy_judge: Judge, where: str) -> None:
    assert "cost_lines" not in passed(grade(toy_judge, HONEST + HIDDEN_WORK[where]))


FORBIDDEN = {
    "swallowed": "try:\n        torch.softmax(x, 0)\n    except BaseException:\n        pass",
    "by getattr": "getattr(torch, 'soft' + 'max')(x, 0)",
    "through torch.ops": "getattr(torch.ops.aten, 'soft' + 'max')(x, 0)",
    "through torch._C": "torch._C._VariableFunctions.softmax(x, 0)",
    "in a string": "exec('torch.softmax(x, 0)', {'torch': torch, 'x': x})",
    "under another file's name": "eval(compile('torch.softmax(x, 0)', torch.__file__, 'eval'), globals(), {'x': x})",
    "in a function of the string's": (
        "names = {'torch': torch}\n    exec(compile('def f(x): return torch.softmax(x, 0)', 'lib.py', 'exec'), names)\n"
        "    names['f'](x)"
    ),
    "in a thread": (
        "import threading\n    t = threading.Thread(target=lambda: torch.softmax(x, 0))\n    t.start()\n    t.join()"
    ),
}


@pytest.mark.parametrize("door", FORBIDDEN)
def test_what_is_forbidden_is_seen_at_every_door(toy_judge: Judge, door: str) -> None:
    report = grade(toy_judge, HONEST + f"\n\ndef double(x):\n    {FORBIDDEN[door]}\n    return x * 2\n")
    (check,) = (check for check in report.checks if check.name == "value")
    assert check.outcome is Outcome.FAILED
    assert "not allowed" in check.message


@pytest.mark.parametrize(
    "reach",
    [
        "from grader.worker import probes",
        "import grader.worker.server as s",
        "__import__('grader.worker.wire')",
        "import importlib; importlib.import_module('grader.worker.probes')",
        "import grader.testing",
    ],
)
def test_the_grader_cannot_be_imported(toy_judge: Judge, reach: str) -> None:
    report = grade(toy_judge, f"try:\n    {reach}\nexcept BaseException:\n    pass\n" + HONEST)
    assert "grader is not allowed" in report.problem
    assert report.points == 0


OUTSIDE = {
    "the solutions": "open(ROOT + '/solutions/02_transformer/03_attention/sdpa.py').read()",
    "the hidden tests": "open(ROOT + '/tests/chapters/02_transformer/03_attention/test_sdpa.py').read()",
    "their names": "os.listdir(ROOT + '/solutions')",
    "the judge's code": "open(ROOT + '/grader/judge/judge.py').read()",
    "the learner's home": "os.listdir(os.path.expanduser('~root') if os.getuid() == 0 else '/home')",
    "the memory of the process that forks workers": "open(f'/proc/{os.getppid()}/mem', 'r+b')",
    "its environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "its files": "os.listdir(f'/proc/{os.getppid()}/fd')",
    "everybody's temporary files": "open('/tmp/left-by-a-submission', 'w')",
    "the libraries": "open(torch.__file__, 'a')",
    "the network": "socket.create_connection(('127.0.0.1', 9))",
}


@pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize("where", OUTSIDE)
def test_a_submission_reaches_nothing_outside(toy_judge: Judge, where: str) -> None:
    if where == "the network" and landlock.version() < landlock.COVERS_TCP:
        pytest.skip("Landlock covers TCP from version 4 on")
    root = str(Path(__file__).parents[2])
    reach = f"""
import os, socket

ROOT = {root!r}


def double(x):
    try:
        {OUTSIDE[where]}
    except PermissionError:
        return x * 2
"""
    assert "value" in passed(grade(toy_judge, HONEST + reach))


@pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
def test_what_is_out_of_reach_is_said(toy_judge: Judge) -> None:
    report = grade(toy_judge, HONEST + "\n\ndef double(x):\n    open('/tmp/left-by-a-submission', 'w')\n")
    (check,) = (check for check in report.checks if check.name == "value")
    assert "write in its working folder, nothing else" in check.message


@pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
def test_a_submission_has_a_folder_and_the_libraries(toy_judge: Judge) -> None:
    report = grade(
        toy_judge,
        HONEST
        + """
def double(x):
    import scipy.special, tempfile, xml.etree.ElementTree

    with tempfile.TemporaryFile() as file, open("scratch", "w") as other:
        file.write(b"1")
        other.write("2")
    torch.save(x, "x.pt")
    return torch.load("x.pt") * 2
""",
    )
    assert "value" in passed(report), [check.message for check in report.checks]


NOISE = {
    "garbage": "os.write(fd, b'R' * 100)",
    "half a message": "os.write(fd, struct.pack('<Q', 1 << 20) + b'R')",
    "a reply too early": "os.write(fd, struct.pack('<Q', 5) + b'Rabcd')",
    "a huge message": "os.write(fd, struct.pack('<Q', 1 << 60))",
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("when", ["at load", "in a call"])
def test_noise_on_the_connection_costs_marks_and_no_report(toy_judge: Judge, noise: str, when: str) -> None:
    writing = f"""
import os, stat, struct

def write():
    for fd in range(3, 30):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                {NOISE[noise]}
        except OSError:
            pass
"""
    used = "write()\n" if when == "at load" else "\ndef double(x):\n    write()\n    return x * 2\n"
    report = grade(toy_judge, HONEST + writing + used)
    assert "value" not in passed(report)
    assert len(report.checks) == len(EVERYTHING)


UNSHOWABLE = {
    "an int of 6000 digits": "return 10**6000",
    "in a list": "return [10**6000, -(10**6000)]",
    "in a message": "raise ValueError('\\ud800 \\x1b[2J')",
    "half a character": "return '\\ud800'",
    "a signalling NaN": "import decimal\n    return decimal.Decimal('sNaN')",
    "terabytes of nothing": "import torch\n    return torch.zeros(1).as_strided((10**6, 10**6), (0, 0))",
}


@pytest.mark.parametrize("what", UNSHOWABLE)
def test_values_that_cannot_be_shown_cost_one_check(toy_judge: Judge, what: str) -> None:
    report = grade(toy_judge, HONEST + f"\n\ndef count(n):\n    {UNSHOWABLE[what]}\n")
    assert passed(report) == EVERYTHING - {"cost_lines"}
    failed = report.checks[-1]
    for text in (failed.message, failed.got, failed.traceback, failed.call):
        text.encode("utf-8")
        assert not re.search(r"\x1b", text)


KERNEL_TESTS = '''
"""Hidden tests of a toy kernel."""

import torch
from grader.testing import close, interpreted, launches_only


def test_value(submission):
    """Twice x."""
    x = torch.randn(10, 50)
    with interpreted(submission):
        close(submission.double(x), x.double() * 2)


def test_only_the_kernel_computes(submission):
    """The wrapper allocates and launches."""
    with interpreted(submission) as run:
        submission.double(torch.randn(10, 50))
    launches_only(run, "x")
'''

KERNEL_SOLUTION = '''
"""A toy."""

import ctypes

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor


### BEGIN SOLUTION
@triton.jit
def kernel(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * factor, mask=at < n)


def times(x, factor):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), factor, BLOCK=64)
    return y


### END SOLUTION


def double(x: Tensor) -> Tensor:
    """Twice x."""
    ### BEGIN SOLUTION
    return times(x, 2.0)
    ### END SOLUTION
'''

HOST_WORK = {
    "written through numpy": "y = times(x, 1.0)\n    y.numpy()[:] *= 2\n    return y",
    "written through a saved method": "y = times(x, 1.0)\n    TO_NUMPY(y)[:] *= 2\n    return y",
    "written by address": (
        "y = times(x, 1.0)\n    z = np.ctypeslib.as_array((ctypes.c_float * 500).from_address(y.data_ptr()))\n"
        "    z *= 2\n    return y"
    ),
    "filled value by value": (
        "y = times(x, 1.0)\n    for i, value in enumerate((ctypes.c_float * 500).from_address(x.data_ptr())):\n"
        "        y.view(-1)[i] = 2 * value\n    return y"
    ),
    "by the storage": (
        "y = times(x, 1.0)\n    twice = bytes(np.asarray(x) * 2)\n    for i, byte in enumerate(twice):\n"
        "        y.untyped_storage()[i] = byte\n    return y"
    ),
    "written by memmove": (
        "y = times(x, 1.0)\n    twice = np.array(x) * 2\n    ctypes.memmove(y.data_ptr(), twice.ctypes.data, 2000)\n"
        "    return y"
    ),
    "written before a kernel copies it": (
        "t = torch.empty_like(x)\n    np.multiply(x.numpy(), 2, out=t.numpy())\n    times(x, 1.0)\n"
        "    return times(t, 1.0)"
    ),
    "into the argument": "x.numpy()[:] *= 2\n    y = times(x, 1.0)\n    x.numpy()[:] /= 2\n    return y",
    "in memory of the host's": "times(x, 2.0)\n    return torch.from_numpy(x.numpy() * 2)",
    "copied from memory of the host's": "times(x, 1.0)\n    return times(torch.from_numpy(x.numpy() * 2), 1.0)",
    "in a buffer": (
        "twice = bytearray((ctypes.c_char * 2000).from_address(x.data_ptr()))\n"
        "    np.frombuffer(twice, np.float32)[:] *= 2\n"
        "    times(x, 1.0)\n    return times(torch.frombuffer(twice, dtype=torch.float32).view(x.shape), 1.0)"
    ),
    "as a list": "times(x, 1.0)\n    return times(torch.tensor([[2 * v for v in row] for row in x.tolist()]), 1.0)",
    "by torch in the grid": (
        "y = torch.empty_like(x)\n"
        "    kernel[lambda meta: (torch.mul(x, 2, out=y).shape[0],)](x, y, 0, 1.0, 64)\n    return y"
    ),
    "without a kernel": "return torch.from_numpy(np.array(x) * 2)",
}


@pytest.fixture(scope="module")
def kernel_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    root = tmp_path_factory.mktemp("kernels")
    toy_course(root, tests=KERNEL_TESTS, solution=KERNEL_SOLUTION)
    chapter = root / "exercises/01_toys/01_toy/chapter.yaml"
    text = chapter.read_text().replace("kind: torch", "kind: triton").replace("check_seconds: 2,", "check_seconds: 20,")
    chapter.write_text(text.replace("exercise_seconds: 20", "exercise_seconds: 60").replace("1024", "4096"))
    mistakes = root / "tests/chapters/01_toys/01_toy/mistakes/toy.py"
    mistakes.write_text('from grader.testing import edit\n\nsquares = edit("times(x, 2.0)", "times(x, 3.0)")\n')
    with Judge(course.load(root), kinds=["triton"], patience=2) as judge:
        yield judge


triton_only = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton exists for Linux only")


@triton_only
def test_the_kernel_passes(kernel_judge: Judge) -> None:
    report = grade(kernel_judge, KERNEL_SOLUTION)
    assert passed(report) == {"value", "only_the_kernel_computes"}, report


@triton_only
@pytest.mark.parametrize("way", HOST_WORK)
def test_what_the_host_does_is_no_kernels_work(kernel_judge: Judge, way: str) -> None:
    source = KERNEL_SOLUTION + f"\n\nTO_NUMPY = torch.Tensor.numpy\n\n\ndef double(x):\n    {HOST_WORK[way]}\n"
    report = grade(kernel_judge, source)
    assert "only_the_kernel_computes" not in passed(report), report
    if way.startswith(("written", "into")):
        assert passed(report) == set()
        assert "changed by host code" in report.checks[0].message
