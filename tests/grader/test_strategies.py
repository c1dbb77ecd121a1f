"""Strategies: inputs that reveal faults, and recipes that give the very same values again."""

from __future__ import annotations

import random
from collections import Counter

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from grader.testing import battery
from grader.testing.property import given
from grader.testing.recipes import recipe_of
from grader.testing.render import render
from grader.testing.strategies import (
    arrays,
    binary,
    booleans,
    floats,
    integers,
    just,
    lists,
    one_of,
    permutations,
    probability_rows,
    ragged,
    sampled_from,
    shared,
    tensors,
    text,
    token_ids,
    tuples,
)

NAMES = {"torch": torch, "np": np}


def draws(strategy, count=200, seed=0):
    found = []

    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.seed(seed)
    @hypothesis.given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


def bits(x):
    if isinstance(x, torch.Tensor):
        plain = x.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
        return plain.numpy().tobytes(), x.stride()
    return x.tobytes(), x.strides


@pytest.mark.parametrize(
    "strategy",
    [
        tensors(rows=(1, 4), n=(1, 300)),
        tensors(n=(0, 20), values="logits", layout="any", leading=(0, 2)),
        tensors(rows=(0, 3), n=(0, 20), dtype=torch.float16, values="logits", layout="any"),
        tensors(rows=(1, 3), n=(1, 20), dtype=[torch.bfloat16, torch.float64], layout="any"),
        tensors(n=(1, 20), dtype=torch.float8_e4m3fn),
        tensors(dtype=torch.float32),
        tensors(n=(0, 20), m=3, dtype=torch.int64, values=(0, 99), layout="any"),
        tensors(n=(0, 20), dtype=torch.uint8),
        tensors(n=(0, 20), m=(1, 4), dtype=torch.bool, layout="any"),
        tensors(n=(1, 20), d=4, requires_grad=True, layout="any"),
        arrays(rows=(1, 4), n=(1, 300)),
        arrays(rows=(1, 4), n=(0, 30), values="logits", layout="any", leading=2),
        arrays(n=(1, 30), dtype=np.float16, values="logits", layout="any"),
        arrays(n=(1, 30), dtype=np.float32, values="normal"),
        arrays(),
        arrays(n=(0, 20), dtype=np.int64, values=(-3, 3), layout="any"),
        arrays(n=(0, 20), dtype=bool),
        probability_rows(rows=(1, 4), n=(1, 20)),
        probability_rows(rows=None, n=5, dtype=torch.float32),
    ],
)
def test_every_recipe_pastes_to_the_same_values(strategy):
    for x in draws(strategy, 60):
        code = recipe_of(x)
        assert code is not None
        back = eval(code, NAMES)
        assert type(back) is type(x)
        assert back.dtype == x.dtype
        assert back.shape == x.shape
        assert bits(back) == bits(x), code
        if not render(x).startswith("<"):
            pasted = eval(render(x), NAMES)
            assert pasted.dtype == x.dtype
            assert bits(pasted) == bits(x), render(x)


@pytest.mark.parametrize("kinds", [battery.FLOATS, battery.LOGITS])
@pytest.mark.parametrize("library", ["torch", "numpy"])
@pytest.mark.parametrize("shape", [(1,), (5,), (1, 1), (3, 7), (2, 3, 4)])
def test_every_kind_makes_the_shape_and_dtype(kinds, library, shape):
    for dtype in ("float16", "float32", "float64"):
        for code in kinds:
            x = eval(code(battery.Plan(shape, dtype, 7, library)), NAMES)
            assert tuple(x.shape) == shape
            assert str(x.dtype).removeprefix("torch.") == dtype
            assert not np.isnan(np.asarray(x)).any()


def test_sizes_lean_to_those_that_reveal_faults():
    sizes = Counter(x.shape[1] for x in draws(tensors(rows=2, n=(1, 300), values="normal"), 500))
    assert sum(sizes[n] for n in (1, 15, 16, 17, 100, 127, 128, 129, 300)) > 150
    assert len(sizes) > 60
    assert min(sizes) == 1
    assert max(sizes) == 300


def test_integers_cover_their_bounds_and_no_more():
    for low, high in ((1, 400), (0, 3), (5, 5), (16, 18), (0, 2), (100, 130)):
        seen = set(draws(integers(low, high), 600))
        assert min(seen) == low
        assert max(seen) == high
        if high - low < 40:
            assert seen == set(range(low, high + 1))
    assert any(n < 0 for n in draws(integers(-10, 10), 50))


def test_the_whole_battery_is_drawn():
    drawn = draws(tensors(rows=(2, 4), n=(3, 40), values="logits"), 300)
    assert any(torch.isinf(x).all(-1).any() for x in drawn)
    assert any((torch.isinf(x[:, 0]).all() and not torch.isinf(x).any(-1).all()) or torch.isinf(x).any() for x in drawn)
    assert any((x > 9e3).all() for x in drawn)
    assert any((x < -9e3).all() and torch.isfinite(x).all() for x in drawn)
    assert any((x == x[:, :1]).all() and torch.isfinite(x).all() for x in drawn)
    assert any(((x == 1e3).sum(-1) == 1).all() for x in drawn)
    assert any((x[:, -1] == 20).all() for x in drawn)
    assert any(2 < x.mean() < 4 and 0.5 < x.std() < 2 for x in drawn)
    plain = draws(tensors(rows=(2, 4), n=(3, 40)), 100)
    assert all(torch.isfinite(x).all() for x in plain)


def test_layouts_hide_nan_between_the_values():
    drawn = draws(tensors(rows=(2, 4), n=(3, 9), layout="any"), 100)
    assert any(not x.is_contiguous() and x.stride(-1) == 2 for x in drawn)
    assert any(x.stride(0) == 1 for x in drawn)
    assert any(x.storage_offset() == 3 for x in drawn)
    assert any(torch.isnan(torch.tensor(x.untyped_storage()).view(torch.float32)).any() for x in drawn)
    assert not any(torch.isnan(x).any() for x in drawn)


def test_leading_axes_shared_axes_and_integers():
    assert {x.ndim for x in draws(tensors(n=4, leading=(0, 2)), 60)} == {1, 2, 3}
    d = shared(integers(1, 64))
    pairs = draws(tuples(tensors(n=(1, 9), d=d), tensors(m=(1, 9), d=d)), 40)
    assert all(q.shape[1] == k.shape[1] for q, k in pairs)
    assert len({q.shape[1] for q, _ in pairs}) > 5
    ids = draws(tensors(n=(1, 30), dtype=torch.int64, values=(2, 9)), 60)
    assert min(int(x.min()) for x in ids) == 2
    assert max(int(x.max()) for x in ids) == 9
    assert any(x.dtype == torch.bool and x.any() and not x.all() for x in draws(tensors(n=9, dtype=torch.bool), 40))


def test_same_seed_same_draws_whatever_is_imported():
    import grader.course  # noqa: F401

    strategy = st.tuples(integers(0, 10**6), st.integers(), text(), floats())
    first = draws(strategy, 50, seed=3)
    assert repr(draws(strategy, 50, seed=3)) == repr(first)
    assert repr(draws(strategy, 50, seed=4)) != repr(first)


def smallest(strategy, wrong):
    found = {}

    @given(value=strategy)
    def check(submission, value):
        if wrong(value):
            found["value"] = value
            raise ValueError

    with pytest.raises(ValueError) as caught:
        check(None)
    return caught.value.example["value"]


def test_shrinks_to_small_sizes_and_the_plainest_kind():
    x = smallest(tensors(rows=(1, 4), n=(1, 300), values="logits", layout="any"), lambda x: x.shape[1] > 20)
    assert render(x) == "(torch.arange(21) % 5 + 1.0).reshape((1, 21))"
    x = smallest(tensors(rows=(1, 4), n=(1, 300)), lambda x: bool((x < 0).any()))
    assert x.shape in ((1, 1), (1, 2), (1, 3))
    assert smallest(integers(1, 400), lambda n: n > 17) == 18
    assert smallest(token_ids(50, n=(0, 50)), lambda ids: len(ids) > 3) == [0, 1, 2, 3]


def test_language_and_probability():
    for ids in draws(token_ids(7, n=(0, 30)), 100):
        assert all(type(i) is int and 0 <= i < 7 for i in ids)
        assert len(ids) <= 30
    assert any(len(set(ids)) == 1 and len(ids) > 3 for ids in draws(token_ids(7), 100))
    rows = draws(probability_rows(rows=(1, 4), n=(2, 20)), 100)
    for p in rows:
        assert p.dtype == np.float64
        assert p.ndim == 2
        np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
        assert (p >= 0).all()
    assert any((p == 0).any() for p in rows)
    assert any((p == 1).any() for p in rows)
    assert any(((p > 0) & (p < 1e-8)).any() for p in rows)
    tensor = draws(probability_rows(rows=None, n=5, dtype=torch.float32), 5)[-1]
    assert tensor.dtype == torch.float32
    assert tensor.shape == (5,)
    for order in draws(permutations((0, 9)), 50):
        assert sorted(order) == list(range(len(order)))
    for lengths in draws(ragged(lengths=(0, 9), rows=(1, 5)), 50):
        assert 1 <= len(lengths) <= 5
        assert all(0 <= n <= 9 for n in lengths)


def test_text_is_any_unicode_that_utf8_can_hold():
    drawn = draws(text(n=(0, 30)), 400)
    for line in drawn:
        line.encode("utf-8")
        assert len(line) <= 30
    everything = "".join(drawn)
    for sign in ("\r\n", "\u200d", "\u0301", "\x00", "ש"):
        assert sign in everything
    assert max(everything) > "\uffff"
    assert all(2 <= len(line) <= 5 for line in draws(text(n=(2, 5)), 100))
    assert any(len(data) and b"\xff" in data for data in draws(binary(n=(0, 50)), 300))


def test_the_plain_strategies():
    assert set(draws(booleans(), 30)) == {False, True}
    assert set(draws(sampled_from([16, 64]), 30)) == {16, 64}
    assert set(draws(one_of(just(None), just(1)), 30)) == {None, 1}
    assert all(0 <= x <= 1 for x in draws(floats(0, 1), 50))
    assert all(len(x) == 3 for x in draws(lists(booleans(), n=3), 20))
    assert all(2 <= len(x) <= 4 for x in draws(lists(integers(0, 9), min_size=2, max_size=4), 20))
    assert all(len(set(x)) == len(x) for x in draws(lists(integers(0, 9), unique=True), 50))


@pytest.mark.parametrize(
    "make",
    [
        lambda: tensors(n=(4, 1)),
        lambda: tensors(n=3, values="gaussian"),
        lambda: tensors(n=3, layout="strange"),
        lambda: tensors(n=3, dtype=torch.complex64),
        lambda: tensors(n=3, dtype=torch.int64, values="logits"),
        lambda: token_ids(0),
        lambda: lists(booleans(), n=(3, 1)),
    ],
)
def test_author_errors_are_clear(make):
    with pytest.raises(ValueError):
        make()


def test_drawing_leaves_the_callers_generators_alone():
    random.seed(5)
    expected = random.random()
    random.seed(5)
    draws(token_ids(9), 10)
    assert random.random() == expected
