"""Rendering: what is printed can be pasted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from grader.testing.foreign import Foreign
from grader.testing.recipes import freeze, make, thaw
from grader.testing.render import number, numbers_apart, render, render_call, short, short_apart
from grader.worker.wire import Record

NAMES = {"torch": torch, "np": np}


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.int16,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 0), (0,)])
def test_tensors_read_back_bit_for_bit(dtype, shape):
    x = (torch.randn(shape, dtype=torch.float64) * 7).to(torch.complex128 if dtype.is_complex else dtype).to(dtype)
    text = render(x)
    back = eval(text, NAMES)
    assert back.dtype == dtype
    assert back.shape == x.shape
    assert torch.equal(back.contiguous().view(-1).view(torch.uint8), x.contiguous().view(-1).view(torch.uint8)), text


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "uint16", "bool", "complex64", "U3"]
)
@pytest.mark.parametrize("shape", [(), (3, 4), (2, 0)])
def test_arrays_read_back_bit_for_bit(dtype, shape):
    x = np.asarray(np.random.default_rng(0).standard_normal(shape) * 7).astype(np.dtype(dtype))
    back = eval(render(x), NAMES)
    assert back.dtype == x.dtype
    assert back.shape == x.shape
    assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "value, text",
    [
        (torch.tensor([0.1, 2.0]), "torch.tensor([0.1, 2.0])"),
        (torch.tensor([0.1], dtype=torch.float16), "torch.tensor([0.1], dtype=torch.float16)"),
        (torch.tensor([0.1], dtype=torch.bfloat16), "torch.tensor([0.1], dtype=torch.bfloat16)"),
        (torch.tensor([-math.inf, math.nan]), 'torch.tensor([float("-inf"), float("nan")])'),
        (torch.tensor([1.0], requires_grad=True), "torch.tensor([1.0], requires_grad=True)"),
        (torch.tensor(3), "torch.tensor(3)"),
        (np.array([[1.5]]), "np.array([[1.5]])"),
        (np.float32(0.1), "np.float32(0.1)"),
        (np.int64(3), "np.int64(3)"),
        (np.bool_(True), "np.bool(True)"),
        (0.1, "0.1"),
        (-math.inf, 'float("-inf")'),
        (complex(1, math.inf), 'complex(1.0, float("inf"))'),
        (10**30, str(10**30)),
        ((1,), "(1,)"),
        ((), "()"),
        (set(), "set()"),
        ({2, 1}, "{1, 2}"),
        (frozenset({1}), "frozenset({1})"),
        ({"a": [None, True]}, "{'a': [None, True]}"),
        ("e\u0301\n", "'e\u0301\\n'"),
        (torch.float16, "torch.float16"),
        (torch.Size([2, 3]), "torch.Size([2, 3])"),
        (np.dtype("float32"), "np.dtype('float32')"),
        (np.float32, "np.float32"),
        (range(3), "range(0, 3)"),
        (math.exp, "exp"),
        (Record("State", {"m": torch.tensor([1.0]), "l": 2}), "State(m=torch.tensor([1.0]), l=2)"),
        (Foreign("Lazy"), "<Lazy>"),
    ],
)
def test_values(value, text):
    assert render(value) == text


def test_unknown_objects_are_not_asked():
    class Loud:
        def __repr__(self):
            raise AssertionError("ran")

    assert render(Loud()) == "<Loud>"
    assert render([Loud()]) == "[<Loud>]"


def test_large_tensors_are_cut_or_given_by_their_recipe():
    x = torch.zeros(4, 300)
    assert render(x) == "<tensor of shape (4, 300), float32: [[0, 0, 0, ...], ...]>"
    code = "torch.randn(4, 300, generator=torch.Generator().manual_seed(7)) * 8"
    y = make(code)
    assert render(y) == code
    assert render(y.clone()).startswith("<tensor of shape (4, 300)")
    y[0, 0] = 5
    assert render(y).startswith("<tensor of shape (4, 300), float32: [[5, ")
    z = make("np.random.default_rng(7).standard_normal((4, 300))")
    assert render(z).startswith("np.random")
    z[1, 1] = 0
    assert render(z).startswith("<array")


def test_a_small_drawn_tensor_is_written_out_unless_its_layout_matters():
    assert render(make("torch.arange(4.0).reshape(2, 2)")) == "torch.tensor([[0.0, 1.0], [2.0, 3.0]])"
    assert render(make("torch.arange(4.0).reshape(2, 2).T")) == "torch.arange(4.0).reshape(2, 2).T"


def test_calls():
    assert render_call("f", [1, "a"], {"block": 7}) == "f(1, 'a', block=7)"
    long = render_call("attention", [torch.zeros(2, 10), torch.zeros(2, 10)], {"causal": True})
    assert long.splitlines()[0] == "attention("
    assert long.splitlines()[-2:] == ["    causal=True,", ")"]


def test_values_that_differ_are_shown_with_the_digits_that_differ():
    a = torch.tensor([[1.5, 2.0]], dtype=torch.float64)
    assert short_apart(a, a + 1e-10) == ("tensor([[1.5, 2]])", "tensor([[1.5000000001, 2.0000000001]])")
    assert short_apart({"x": 1.0}, {"x": 1 + 2**-52}) == ("{'x': 1}", "{'x': 1.0000000000000002}")
    assert short_apart(1.0, 1.0) == ("1", "1")


def test_short_is_short():
    assert short(torch.tensor([[0.25, 0.123456789]])) == "tensor([[0.25, 0.123457]])"
    assert len(short(list(range(10_000)))) < 210
    assert len(short("x" * 10_000)) < 210
    assert short(torch.zeros(4, 300)) == "tensor of shape (4, 300), float32: [[0, 0, 0, ...], ...]"
    assert short(0.1 + 0.2) == "0.3"


def test_numbers_show_their_difference():
    assert numbers_apart(1.0, 1.00000001) == ("1", "1.00000001")
    assert numbers_apart(0.25, 0.5) == ("0.25", "0.5")
    assert number(True) == "True"
    assert number(123456789) == "123456789"


def test_frozen_values_survive_changes():
    x = make("torch.arange(8.0).reshape(2, 4)[:, ::2]")
    values = {"x": x, "copy": torch.ones(2), "many": [make("np.arange(3.0)")], "ids": [1, 2]}
    frozen = freeze(values)
    x[:] = 0
    values["copy"][:] = 0
    values["many"][0][:] = 9
    values["ids"].clear()
    for _ in range(2):
        back = thaw(frozen)
        assert back["x"].tolist() == [[0, 2], [4, 6]]
        assert back["x"].stride() == (4, 2)
        assert back["copy"].tolist() == [1, 1]
        assert back["many"][0].tolist() == [0, 1, 2]
        assert back["ids"] == [1, 2]
        back["copy"][:] = 7
