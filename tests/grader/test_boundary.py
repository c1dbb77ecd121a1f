"""What crosses between judge and worker, and that it arrives as it was sent."""

from __future__ import annotations

import decimal
import fractions
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from test_sandbox import bubblewrap_works

from grader.course import Limits
from grader.judge import current, debug
from grader.judge.errors import ArgumentChanged, SubmissionError
from grader.judge.hosts import Home, Hosts
from grader.judge.proxies import Handle
from grader.judge.session import Session
from grader.judge.submission import Submission
from grader.testing import dispatched, flops, fresh, in_place, raises, require
from grader.testing.failure import CheckFailed
from grader.testing.foreign import Foreign

SOURCE = """
import numpy as np
import torch
from dataclasses import dataclass
from typing import NamedTuple
from collections import Counter


@dataclass(frozen=True)
class Point:
    x: torch.Tensor
    y: int

    def doubled(self):
        return Point(self.x * 2, self.y * 2)


class Pair(NamedTuple):
    a: int
    b: int


class Stack:
    def __init__(self, *items):
        self.items = list(items)

    def push(self, item):
        self.items.append(item)
        return self

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __iter__(self):
        return iter(self.items)

    def __add__(self, other):
        return Stack(*self.items, *other.items)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.items.clear()


CONSTANT = {"limit": 7}


def same(x):
    return x


def kinds(x):
    return type(x).__name__


def describe(x):
    return tuple(x.shape), tuple(x.stride()), x.is_contiguous(), x.storage_offset()


def point(x, y):
    return Point(x, y)


def uses(p):
    return p.x.sum().item() + p.y


def apply(f, *args, **kwargs):
    return f(*args, **kwargs)


def swallow(f):
    try:
        return f()
    except Exception:
        return "swallowed"


def drain(iterator):
    return list(iterator)


def count(n):
    for i in range(n):
        yield i


def add_one(x):
    x += 1


def append(items):
    items.append(len(items))


def linear(x, w):
    return (x @ w).tanh(), x.sum()


def module():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def draw(rng, n):
    return rng.random(n)


def draw_torch(generator):
    return torch.rand(3, generator=generator)


def view(x):
    return x[1:]


def odd():
    class Sub(torch.Tensor):
        pass

    class Arr(np.ndarray):
        pass

    class Int(int):
        def __eq__(self, other):
            return True

    return torch.ones(2).as_subclass(Sub), np.ones(2).view(Arr), Int(3), torch.eye(2).to_sparse(), Counter("aab")


def recursive():
    x = []
    x.append(x)
    return x


def fails():
    raise KeyError("key")


class Custom(ValueError):
    pass


def fails_custom():
    raise Custom("mine")
"""


@pytest.fixture(scope="module", params=["process", "spawn", "sandbox", "none"])
def submission(request: pytest.FixtureRequest) -> Iterator[Submission]:
    options = {
        "filename": "/work/boundary.py",
        "source": SOURCE,
        "module": "boundary",
        "kind": "torch",
        "forbid": [],
        "output_kib": 64,
    }
    if request.param == "none":
        yield Submission(lambda: debug.session(options), lambda *_: [])
        return
    hosts = Hosts(["torch"])
    if request.param == "spawn":
        from grader.judge.workers import SpawnHost

        hosts._hosts["torch"] = SpawnHost("torch", hosts._folder)
    if request.param == "sandbox" and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed or may not make namespaces")
    home = Home(hosts, "sandbox" if request.param == "sandbox" else "process")

    def start() -> Session:
        return Session.open(home.start("torch", Limits()), options, 120)

    submission = Submission(start, lambda *_: [])
    current.use(submission)
    submission.session.allow(600)
    yield submission
    submission.close()
    home.close()
    hosts.close()


Named = namedtuple("Named", "left right")

PLAIN = [
    None,
    True,
    -5,
    2**63,
    -(2**200),
    1.5,
    float("-inf"),
    1 + 2j,
    "text ☃ \U0001f600 \ud800",
    b"\x00\xff",
    [],
    (),
    (1,),
    [1, (2, [3, {4}])],
    {"a": 1, 2: (3, 4), (5, 6): [7]},
    {1, 2, 3},
    frozenset({"x"}),
    fractions.Fraction(1, 3),
    decimal.Decimal("1.10"),
    slice(1, None, 2),
    range(3, 9, 2),
    ...,
    deque([1, 2]),
    torch.float16,
    torch.device("cpu"),
    np.float32(0.5),
    np.int64(3),
    np.bool_(True),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back_as_they_were(submission: Submission, value: Any) -> None:
    back = submission.same(value)
    assert type(back) is type(value)
    assert back == value


def test_order_and_kind_of_containers(submission: Submission) -> None:
    assert list(submission.same(OrderedDict(b=1, a=2))) == ["b", "a"]
    back = submission.same(Named(1, [2]))
    assert (back.left, back.right) == (1, [2])
    assert np.isnan(submission.same(float("nan")))


NAMES = """
bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128
float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
""".split()  # noqa: SIM905 - a table reads better than 21 quoted strings
DTYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype(submission: Submission, dtype: torch.dtype) -> None:
    bits = torch.randint(0, 2, (3, 4, 16), dtype=torch.uint8)
    tensor = bits.flatten().view(dtype)[:12].reshape(3, 4) if dtype is not torch.bool else bits[0].bool()
    back = submission.same(tensor)
    assert back.dtype is dtype
    assert back.shape == tensor.shape
    assert torch.equal(back.contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0),
        torch.zeros(3, 0, 2),
        torch.tensor(4.0),
        torch.arange(12.0).reshape(3, 4).T,
        torch.arange(12.0)[::3],
        torch.arange(12.0)[5:9],
        torch.arange(3.0).expand(4, 3),
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.randn(3, dtype=torch.complex64).conj(),
    ],
    ids=["empty", "no columns", "scalar", "transposed", "strided", "slice", "expanded", "permuted", "conjugated"],
)
def test_layouts_survive(submission: Submission, tensor: torch.Tensor) -> None:
    back = submission.same(tensor)
    assert torch.equal(back, tensor)
    shape, stride, contiguous, offset = submission.describe(tensor)
    assert (shape, contiguous, offset) == (tuple(tensor.shape), tensor.is_contiguous(), tensor.storage_offset())
    assert stride == tensor.stride()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0),
        np.zeros((2, 0)),
        np.arange(12).reshape(3, 4)[::-1, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["ab", "c"]),
        np.array([1, "x", None], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
        np.broadcast_to(np.arange(3), (2, 3)),
        np.array(3.0),
        np.array([1 + 2j]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_arrays(submission: Submission, array: np.ndarray) -> None:
    back = submission.same(array)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def test_dataclasses_go_by_value_and_keep_their_methods(submission: Submission) -> None:
    point = submission.point(torch.ones(2), 3)
    assert point.y == 3
    assert torch.equal(point.x, torch.ones(2))
    assert submission.uses(point.replace(y=10)) == 12
    assert submission.uses(submission.Point(x=torch.zeros(1), y=4)) == 4
    assert point.doubled().y == 6


def test_objects_are_handles(submission: Submission) -> None:
    stack = submission.Stack(1, 2)
    assert isinstance(stack, Handle)
    assert len(stack) == 2
    assert stack.push(5) is not None
    assert stack[-1] == 5
    assert list(stack) == [1, 2, 5]
    assert list(stack + submission.Stack(9)) == [1, 2, 5, 9]
    assert stack.items == [1, 2, 5]
    with stack as entered:
        assert entered == stack
    assert len(stack) == 0
    stack.items = [4]
    assert list(stack) == [4]
    assert submission.same(stack) == stack
    assert submission.CONSTANT == {"limit": 7}


def test_generators_are_lazy(submission: Submission) -> None:
    numbers = submission.count(10**9)
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    assert list(submission.count(0)) == []


def test_callbacks_run_in_the_judge(submission: Submission) -> None:
    seen = []
    assert submission.apply(lambda x, y=1: seen.append(x) or x + y, torch.tensor(2.0), y=5) == 7
    assert len(seen) == 1
    assert submission.apply(lambda: submission.apply(lambda: 42)) == 42
    assert submission.drain(iter([1, 2])) == [1, 2]
    assert submission.kinds(lambda: None) == "JudgeObject"
    function = sum
    assert submission.same(function) is function


def test_objects_of_a_test_lend_their_public_methods_only(submission: Submission) -> None:
    class Memory:
        secret = "hidden"

        def load(self, i: int) -> int:
            return i * 2

    memory = Memory()
    assert submission.same(memory) is memory
    with pytest.raises(SubmissionError):
        submission.session.call(memory, "secret", (), {})


def test_exceptions_of_a_callback_keep_their_kind(submission: Submission) -> None:
    def stop() -> None:
        raise IndexError("beyond")

    with pytest.raises(SubmissionError) as caught:
        submission.apply(stop)
    assert caught.value.kind == "IndexError"
    assert submission.swallow(stop) == "swallowed"


def test_a_failed_check_in_a_callback_cannot_be_swallowed(submission: Submission) -> None:
    with pytest.raises(CheckFailed):
        submission.swallow(lambda: require(False, "no"))


def test_exceptions(submission: Submission) -> None:
    with raises(KeyError):
        submission.fails()
    with raises(ValueError, match="mine"):
        submission.fails_custom()
    with pytest.raises(CheckFailed, match="no exception"), raises(ValueError):
        submission.same(1)


def test_a_changed_argument_is_found_and_can_be_allowed(submission: Submission) -> None:
    fused = torch.zeros(4, 6)
    with pytest.raises(ArgumentChanged):
        submission.add_one(fused[:, 2:4])
    assert fused.sum() == 0
    submission.session.side.parameter_names["add_one"] = ["x"]
    in_place(submission.add_one, "x")(fused[:, 2:4])
    assert fused.sum() == 8
    assert fused[:, :2].sum() == 0
    array = np.zeros((3, 3))
    in_place(submission.add_one, "x")(array[::2])
    assert array.sum() == 6
    items: list[int] = [7]
    submission.session.side.parameter_names["append"] = ["items"]
    with pytest.raises(ArgumentChanged):
        submission.append(items)
    in_place(submission.append, "items")(items)
    assert items == [7, 1]


def test_fresh_finds_an_alias(submission: Submission) -> None:
    current.use(submission)
    x = torch.arange(4.0)
    with pytest.raises(CheckFailed, match="shares memory"):
        fresh(submission.view(x))
    fresh(submission.linear(x[None], torch.ones(4, 1)))
    array = np.arange(4.0)
    with pytest.raises(CheckFailed, match="shares memory"):
        fresh(submission.view(array))


def test_gradients_cross(submission: Submission) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y, total = submission.linear(x, w)
    (y.sum() + 2 * total).backward()
    reference_x = x.detach().clone().requires_grad_()
    ((reference_x @ w.detach()).tanh().sum() + 2 * reference_x.sum()).backward()
    assert torch.allclose(x.grad, reference_x.grad)
    assert torch.autograd.gradcheck(lambda *a: submission.linear(*a)[0], (x, w))
    with torch.no_grad():
        assert not submission.linear(x, w)[0].requires_grad
    square = torch.randn(2, 2, requires_grad=True)
    submission.linear(square, square)[0].sum().backward()
    assert square.grad is not None


def test_modules(submission: Submission) -> None:
    module = submission.module()
    out = module(torch.ones(1, 3))
    out.sum().backward()
    named = dict(module.named_parameters())
    assert torch.equal(named["weight"].grad, torch.ones(2, 3))
    state = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    module.load_state_dict(state)
    assert module(torch.ones(1, 3)).abs().sum() == 0
    assert module.to(torch.bfloat16).weight.dtype is torch.bfloat16


def test_random_generators_advance(submission: Submission) -> None:
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(2):
        assert np.array_equal(submission.draw(theirs, 4), ours.random(4))
    ours_t, theirs_t = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for _ in range(2):
        assert torch.equal(submission.draw_torch(theirs_t), torch.rand(3, generator=ours_t))


def test_what_does_not_cross_is_named(submission: Submission) -> None:
    sub, array, integer, sparse, counter = submission.odd()
    assert isinstance(sub, Foreign)
    assert sub.type_name == "Sub"
    assert isinstance(array, Foreign)
    assert isinstance(integer, Handle)
    assert isinstance(sparse, Foreign)
    assert counter == {"a": 2, "b": 1}
    with pytest.raises(SubmissionError, match="contains itself"):
        submission.recursive()


def test_many_calls_in_one_message(submission: Submission) -> None:
    assert submission.many("same", [((i,), {}) for i in range(5)]) == list(range(5))


class Doubler:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: int) -> int:
        return x * self.factor


def test_one_call_is_counted_for_every_block_that_is_open(submission: Submission) -> None:
    with dispatched(submission) as operations, flops(submission) as products:
        submission.linear(torch.ones(2, 3), torch.ones(3, 5))
    assert ("aten.mm", 10) in operations.ops
    assert products.value == 60


def test_props_live_in_the_worker(submission: Submission) -> None:
    prop = submission.prop(Doubler, 3)
    assert submission.apply(prop, 5) == 15
    assert submission.kinds(prop) == "Doubler"


def test_a_missing_function_says_what_is_there(submission: Submission) -> None:
    with pytest.raises(SubmissionError, match="it has describe"):
        _ = submission.discribe
