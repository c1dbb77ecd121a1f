"""`given`: what it reports, when it stops, and how a failure is run again."""

from __future__ import annotations

import contextlib
import inspect
import random
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from grader.testing.closeness import close
from grader.testing.failure import CheckFailed, points, require
from grader.testing.property import current_seed, given, seeded
from grader.testing.render import render
from grader.testing.strategies import booleans, integers, lists, tensors


def failure_of(test, *args, **kwargs) -> Exception:
    with pytest.raises(Exception) as caught:
        test(*args, **kwargs)
    return caught.value


def test_runs_the_examples_the_simplest_first():
    seen = []

    @given(n=integers(1, 1000), examples=40)
    def check(submission, n):
        seen.append((submission, n))

    check("the submission")
    assert len(seen) == 40
    assert seen[0] == ("the submission", 1)
    assert len(set(seen)) > 10


def test_looks_like_an_ordinary_test():
    @points(2)
    @given(n=integers(1, 9))
    def test_it(submission, rng, n):
        """What it is about."""

    assert test_it.__name__ == "test_it"
    assert test_it.__doc__ == "What it is about."
    assert test_it.__points__ == 2
    assert list(inspect.signature(test_it).parameters) == ["submission", "rng"]
    assert not hasattr(test_it, "__wrapped__")


@given(n=integers(1, 9), x=tensors(n=(1, 3)))
def test_works_under_plain_pytest(n, x):
    assert 1 <= n <= 9


def test_reports_the_smallest_example():
    @given(x=tensors(rows=(1, 4), n=(1, 300)), block=integers(1, 400))
    def check(submission, x, block):
        y = x.softmax(-1)
        if x.shape[-1] % block:
            y[..., -(x.shape[-1] % block) :] = 0
        close(y, x.double().softmax(-1))

    for seed in range(3):
        with seeded(seed):
            error = failure_of(check, None)
        assert isinstance(error, CheckFailed)
        assert error.example["x"].numel() <= 6
        assert error.example["block"] <= 3
        assert render(error.example["x"]).startswith("torch.tensor([[1.0")


def test_the_same_seed_gives_the_same_examples():
    def run(seed):
        seen = []

        @given(n=integers(0, 10**9), x=tensors(n=(1, 5)))
        def check(submission, n, x):
            seen.append((n, x.tolist(), torch.rand(1).item(), random.random(), np.random.rand()))

        with seeded(seed):
            check(None)
        return seen

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert current_seed() == 0


def test_an_example_can_be_run_again():
    drawn = []

    @given(x=tensors(n=(1, 50)), sizes=lists(integers(0, 9)))
    def check(submission, rng, x, sizes):
        drawn.append((rng.random(), torch.rand(1).item(), x.tolist(), list(sizes)))
        x.zero_()
        sizes.clear()
        require(len(drawn[-1][2]) < 7, "too long", got=len(drawn[-1][2]))

    error = failure_of(check, None, rng=None)
    assert error.example["x"].tolist() == [1, 2, 3, 4, 5, 1, 2]
    first = next(d for d in drawn if d[2] == [1, 2, 3, 4, 5, 1, 2] and d[3] == [])
    for extra in ({}, {"rng": np.random.default_rng(5)}):
        drawn.clear()
        with pytest.raises(CheckFailed, match="too long"):
            check.run_example(None, error.example, **extra)
        assert drawn == [first]
    assert error.example["x"].tolist() == [1, 2, 3, 4, 5, 1, 2]


def test_shrinking_keeps_to_one_fault():
    @given(n=integers(0, 1000))
    def check(submission, n):
        if n > 600:
            raise CheckFailed("wrong", aspect="value")
        if n > 10:
            raise IndexError

    for seed in range(8):
        with seeded(seed):
            error = failure_of(check, None)
        expected = 601 if isinstance(error, CheckFailed) else 11
        assert error.example["n"] == expected


def test_fatal_errors_stop_at_once():
    calls = []

    class Dead(Exception):
        fatal = True

    @given(n=integers(0, 1000))
    def check(submission, n):
        calls.append(n)
        if n > 5:
            raise Dead

    error = failure_of(check, None)
    assert isinstance(error, Dead)
    assert error.example == {"n": calls[-1]}
    assert sum(n > 5 for n in calls) == 1


def test_a_fatal_error_while_shrinking_does_not_hide_which_call_it_was():
    class Dead(Exception):
        fatal = True

    @given(n=integers(0, 1000))
    def check(submission, n):
        if 5 < n < 50:
            raise Dead
        require(n <= 5, "wrong")

    error = failure_of(check, None)
    assert isinstance(error, (Dead, CheckFailed))
    assert error.example["n"] > 5


def test_different_answers_for_the_same_call():
    calls = []

    @given(n=integers(0, 1000))
    def check(submission, n):
        calls.append(n)
        require(len(calls) != 10, "wrong", got=n)

    error = failure_of(check, None)
    assert isinstance(error, CheckFailed)
    assert error.message == "gave different answers for the same call"
    assert error.where == "the first time: wrong"
    assert error.example == {"n": calls[9]}


def test_shrinking_is_bounded_in_time():
    @given(x=tensors(rows=(1, 9), n=(1, 300)), n=integers(0, 10**6), m=integers(0, 10**6))
    def check(submission, x, n, m):
        if x.numel() > 300 and n > 1000:
            time.sleep(0.1)
            raise CheckFailed("wrong", aspect="value")

    began = time.monotonic()
    error = failure_of(check, None)
    assert time.monotonic() - began < 5
    assert error.example["n"] > 1000


def test_errors_of_any_kind_carry_their_example():
    @given(n=integers(0, 9))
    def check(submission, n):
        [1, 2, 3][n]

    error = failure_of(check, None)
    assert isinstance(error, IndexError)
    assert error.example == {"n": 3}


def test_nothing_is_printed(capfd):
    @given(n=integers(0, 9), flag=booleans())
    def check(submission, n, flag):
        require(n < 5, "wrong")

    failure_of(check, None)
    out = capfd.readouterr()
    assert out.out == out.err == ""


def test_nothing_is_written_where_the_learner_works(tmp_path):
    code = (
        "from grader.testing import given, text, integers\n"
        "@given(t=text(), n=integers(0, 9))\n"
        "def check(submission, t, n): assert n < 9\n"
        "try: check(None)\n"
        "except AssertionError: pass"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_baseexceptions_pass():
    @given(n=integers(0, 9))
    def check(submission, n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(None)


def test_author_errors_are_clear():
    with pytest.raises(TypeError, match="has no parameter m"):

        @given(m=integers(0, 9))
        def check(submission, n): ...

    with pytest.raises(TypeError, match="not a strategy"):
        given(n=3)
    with pytest.raises(TypeError, match="at least one"):
        given()


def test_overhead_is_small():
    @given(x=tensors(rows=(1, 4), n=(1, 300)), block=integers(1, 400), examples=100)
    def check(submission, x, block): ...

    check(None)
    times = []
    for _ in range(3):
        began = time.process_time()
        check(None)
        times.append(time.process_time() - began)
    # About 1 ms an example on an idle machine; the bound leaves room for a busy one.
    assert min(times) / 100 < 4e-3


def test_global_generators_are_restored():
    random.seed(3)
    expected = random.random()
    random.seed(3)

    @given(n=integers(0, 9))
    def check(submission, n):
        random.random()

    check(None)
    assert random.random() == expected
    with contextlib.suppress(CheckFailed):
        given(n=integers(0, 9))(lambda submission, n: require(False, "wrong"))(None)
