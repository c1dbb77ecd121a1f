"""`close`: what it accepts, what it rejects, and what it says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from grader.testing.closeness import close
from grader.testing.failure import CheckFailed, needs, points, require
from grader.testing.foreign import Foreign
from grader.worker.wire import Record


def rejected(*args, **kwargs) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        close(*args, **kwargs)
    return caught.value


def test_accepts_what_is_right():
    x = torch.randn(4, 30) * 8
    right = x.double().softmax(-1)
    close(x.softmax(-1), right)
    close(x.half().float().softmax(-1).half(), x.half().double().softmax(-1))
    close(x.softmax(-1).bfloat16(), right)
    close(right, right)
    close(right.numpy(), right.numpy())
    close(torch.nn.Parameter(x), x.double())
    close(x.clone().requires_grad_(), x.double())
    close(x[:, ::2], x.double()[:, ::2])
    close(torch.tensor(0.5), torch.tensor(0.5, dtype=torch.float64))
    close(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.float64))
    close(torch.tensor([1, 2]), torch.tensor([1, 2]))
    close(torch.tensor([1 + 2j]), torch.tensor([1 + 2j], dtype=torch.complex128))
    close(np.float64(0.5), np.array(0.5))
    close(np.float64(0.5), 0.5)
    close(1, 1.0)
    close(0.1 + 0.2, 0.3)
    close(float("nan"), float("nan"))
    close(1 + 2j, 1 + 2j)


def test_plain_lists_stand_for_tensors_and_arrays():
    close(torch.tensor([0.25, 0.75]), [0.25, 0.75])
    close(torch.tensor([[0.25], [0.75]]), [[0.25], [0.75]])
    close(torch.tensor([1.0, 2.0]), [1, 2])
    close(torch.tensor([1, 2]), [1, 2])
    close(np.array([0.25, float("-inf")]), [0.25, float("-inf")])
    close([0.25, 0.75], [0.25, 0.75])
    assert rejected(torch.tensor([0.25, 0.5]), [0.25, 0.75]).message == "1 of 2 elements is wrong"
    assert rejected(torch.tensor([[0.25, 0.75]]), [0.25, 0.75]).message == "shape (1, 2), expected (2,)"
    assert rejected(torch.tensor([1, 2]), [0.5, 2]).message == "dtype int64, expected a float dtype"


@pytest.mark.parametrize(
    "got, expected, message",
    [
        (torch.zeros(3, 1), torch.zeros(3).double(), "shape (3, 1), expected (3,)"),
        (torch.zeros(3).double(), torch.zeros(3), "dtype float64, expected float32"),
        (torch.zeros(3).long(), torch.zeros(3).double(), "dtype int64, expected a float dtype"),
        (0.5, torch.zeros(3).double(), "a float, expected a tensor of shape (3,)"),
        ([0.0, 0.0, 0.0], torch.zeros(3).double(), "a list, expected a tensor of shape (3,)"),
        (torch.zeros(3), np.zeros(3), "a tensor, expected a numpy array of shape (3,)"),
        (0.5, [0.5, 0.5], "a float, expected a list of 2"),
        (torch.tensor([0, 1]), [True, False], "dtype int64, expected bool"),
        (None, torch.zeros(3).double(), "None, expected a tensor of shape (3,)"),
        (np.zeros(3), torch.zeros(3).double(), "a numpy array, expected a tensor of shape (3,)"),
        (torch.tensor(0.5), 0.5, "a tensor of shape (), expected a float"),
        (True, 1.0, "a bool, expected a float"),
        ("0.5", 0.5, "a str, expected a float"),
        (1j, 0.5, "a complex, expected a float"),
        ((0.5,), [0.5], "a tuple, expected a list of 1"),
        ([0.5, 0.5], [0.5], "2 items, expected 1"),
        ({"a": 0.5}, {"b": 0.5}, "no key 'b'; unexpected key 'a'"),
        ({"loss": 0.25}, {"loss": 0.5}, "item 'loss': 0.25, expected 0.5"),
        ((torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(2)), "item 1: shape (3,), expected (2,)"),
        (torch.tensor([[0.0, float("nan")]]), torch.zeros(1, 2).double(), "NaN at [0, 1]"),
        (torch.full((2, 3), float("nan")), torch.zeros(2, 3).double(), "NaN at [0, 0]; first of 6"),
        (torch.tensor([float("inf")]), torch.tensor([float("-inf")]).double(), "inf at [0], expected -inf"),
        (torch.tensor([1.0]), torch.tensor([float("-inf")]).double(), "1 at [0], expected -inf"),
        (float("nan"), 0.5, "nan, expected 0.5"),
        (1.0, 1.00001, "1, expected 1.00001"),
        (1.0, 1.000002, "1, expected 1.000002"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements is wrong"),
        (torch.tensor([True]), torch.tensor([False]), "True, expected False"),
        (np.array([1, "a"], dtype=object), np.array([1.0, 2.0]), "dtype object, expected a float dtype"),
        (torch.tensor([2**60]), torch.tensor([2**60 + 1]), "1152921504606846976, expected 1152921504606846977"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(got, expected, message):
    failure = rejected(got, expected)
    assert failure.message == message
    assert failure.got
    assert failure.expected


def test_hostile_values_are_never_run():
    class Always(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args, **kwargs):
            raise AssertionError("ran")

    class Fooling(np.ndarray):
        def __array_function__(self, *args, **kwargs):
            raise AssertionError("ran")

    class Float(float):
        def __rsub__(self, other):
            raise AssertionError("ran")

        __abs__ = __eq__ = __float__ = __rsub__
        __hash__ = None

    assert rejected(torch.zeros(2).as_subclass(Always), torch.zeros(2).double()).message.startswith("an Always")
    assert rejected(np.zeros(2).view(Fooling), np.zeros(2)).message.startswith("a Fooling")
    assert rejected(Float(0.5), 0.5).message == "a Float, expected a float"
    masked = np.ma.masked_array([0.0, 1.0])
    assert rejected(masked, np.array([0.0, 1.0])).message.startswith("a MaskedArray")


def test_foreign_values_say_what_to_return():
    value = Foreign("MaskedTensor", "a subclass of torch.Tensor", "a plain torch.Tensor")
    expected = "returned a MaskedTensor, a subclass of torch.Tensor; return a plain torch.Tensor"
    assert rejected(value, torch.zeros(2)).message == expected
    assert rejected((value, 1.0), (torch.zeros(2), 1.0)).message == f"item 0: {expected}"


def test_worst_element_against_the_tolerance():
    expected = torch.full((2, 4), 2.0).double()
    got = expected.float()
    got[1, 2] += 2e-3
    failure = rejected(got, expected, what="probabilities")
    assert failure.message == "probabilities: 1 of 8 elements is wrong"
    assert failure.where == (
        "worst at [1, 2]: got 2.002, expected 2; off by 0.002, 100 times the tolerance of 2e-05"
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong, place",
    [
        (np.s_[:, 120:], "all 24 wrong elements are in columns 120..127 (the last 8), every element there"),
        (np.s_[1], "all 128 wrong elements are in row 1, every element there"),
        (np.s_[2], "all 128 wrong elements are in row 2 (the last), every element there"),
        (np.s_[:, 0], "all 3 wrong elements are in column 0, every element there"),
        (np.s_[:, ::4], "all 96 wrong elements are in columns 0, 4, ..., 124 (every fourth), every element there"),
        (np.s_[:2, 3:6], "all 6 wrong elements are in rows 0..1 (the first 2) and columns 3..5, every element there"),
    ],
)
def test_where_the_wrong_elements_are(wrong, place):
    expected = torch.randn(3, 128, dtype=torch.float64) + 10
    got = expected.clone()
    got[wrong] += torch.randn(got[wrong].shape).abs() + 1
    assert place in rejected(got, expected).where


def test_wrong_above_the_diagonal():
    expected = torch.randn(6, 6, dtype=torch.float64)
    got = expected + torch.randn(6, 6).abs().triu(1)
    assert "all wrong elements are above the diagonal" in rejected(got, expected).where


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda x: x * 8, "got is 8 times the expected result everywhere"),
        (lambda x: -x, "got is the negative of the expected result"),
        (lambda x: x + 2.5, "got is the expected result plus 2.5 everywhere"),
        (lambda x: x.T.clone(), "got is the expected result transposed"),
        (lambda x: x.flip(-1), "got is the expected result with its columns in reverse order"),
        (torch.zeros_like, "got is zero everywhere"),
        (lambda x: torch.full_like(x, 0.3), "got is the same number everywhere"),
        (lambda x: torch.randn_like(x) + 5, None),
    ],
)
def test_what_a_wrong_answer_resembles(change, words):
    expected = torch.randn(5, 5, dtype=torch.float64)
    failure = rejected(change(expected).float(), expected)
    assert words in failure.where if words else "got is" not in failure.where


def test_the_scale_is_the_row_the_element_or_the_whole():
    expected = torch.tensor([[1.0, 1e-6], [1e-6, 1e-6]], dtype=torch.float64)
    got = expected.clone()
    got[0, 1] += 1e-7
    close(got.float(), expected)
    rejected(got.float(), expected, by="element")
    got[1, 1] += 1e-7
    rejected(got.float(), expected)
    close(got.float(), expected, by="tensor")
    close([1.0, 1e-8], [1.0, 0.0], by="row")
    rejected([1.0, 1e-8], [1.0, 0.0])
    close([1.0, 1e-8], [1.0, 0.0], atol=1e-7)
    rejected((1e6, 0.0011), (1e6, 0.001))
    assert "exact equality required" in rejected(torch.tensor([1e-9]), torch.zeros(1).double()).where


def test_rows_with_infinities_keep_a_scale():
    expected = torch.tensor([[float("-inf"), 1.0, 1e-6]], dtype=torch.float64)
    close(torch.tensor([[float("-inf"), 1.0, 2e-6]]), expected)
    rejected(torch.tensor([[float("-inf"), 1.0, 1e-3]]), expected)
    close(torch.tensor([[float("-inf")] * 3]), torch.tensor([[float("-inf")] * 3]).double())
    huge = torch.tensor([1e300, 1e-300], dtype=torch.float64)
    close(huge, huge)


def test_dtype_is_exact_where_asked():
    expected = torch.ones(2).double()
    close(torch.ones(2).half(), expected, dtype=torch.float16)
    assert rejected(torch.ones(2), expected, dtype=torch.float16).message == "dtype float32, expected float16"
    close(np.ones(2, np.float32), np.ones(2), dtype=np.float32)
    close(np.float32(0.5), 0.5, dtype=np.float32)
    assert rejected(0.5, 0.5, dtype=np.float32).message == "a float, expected np.float32"


def test_an_honest_computation_widens_the_bound():
    expected = torch.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    honest = torch.tensor([[1.0, 1.01], [1.0, 1.0]])
    close(torch.tensor([[1.015, 1.0], [1.0, 1.0]]), expected, honest=honest)
    rejected(torch.tensor([[1.025, 1.0], [1.0, 1.0]]), expected, honest=honest)
    failure = rejected(torch.tensor([[1.0, 1.0], [1.0, 1.015]]), expected, honest=honest)
    assert "worst at [1, 1]" in failure.where
    close((torch.tensor([1.015]),), (torch.ones(1).double(),), honest=(torch.tensor([1.01]),))


def test_trivial_answers_are_caught_at_any_size():
    scores = torch.randn(4, 4096) / 100
    right = scores.double().softmax(-1)
    for answer in (
        torch.zeros_like(scores),
        torch.full_like(scores, 1 / 4096),
        scores,
        scores.half().softmax(-1).float() * 1.001,
    ):
        rejected(answer, right)
    partial = right.float()
    partial[:, 4088:] = 0
    assert "columns 4088..4095 (the last 8)" in rejected(partial, right).where


def test_records_are_compared_by_field():
    right = Record("State", {"m": torch.ones(2).double(), "l": torch.ones(2).double()})
    close(Record("State", {"m": torch.ones(2), "l": torch.ones(2)}), right)
    assert rejected(Record("State", {"m": torch.ones(2), "l": torch.ones(3)}), right).message == (
        "l: shape (3,), expected (2,)"
    )
    assert rejected({"m": torch.ones(2), "l": torch.ones(2)}, right).message == "a dict, expected a State"


def test_fp8_is_compared_in_float64():
    x = torch.tensor([0.3, 5.0]).to(torch.float8_e4m3fn)
    close(x, torch.tensor([0.3, 5.0], dtype=torch.float64))
    rejected(x, torch.tensor([0.3, 8.0], dtype=torch.float64))


def test_author_errors_are_not_the_learners():
    with pytest.raises(ValueError, match="by="):
        close(torch.ones(2), torch.ones(2), by="rows")
    with pytest.raises(ValueError, match="honest"):
        close(torch.ones(2), torch.ones(2), honest=torch.ones(3))


def test_require_points_needs():
    require(True, "fine")
    with pytest.raises(CheckFailed) as caught:
        require(1 > 2, "one is not more", got=1, expected=2)
    assert str(caught.value) == "one is not more\n  got:      1\n  expected: 2"

    @points(3)
    @needs("test_worked_example", "other")
    def check(submission): ...

    assert check.__points__ == 3
    assert check.__needs__ == ("worked_example", "other")
    with pytest.raises(ValueError, match="weighs"):
        points(0)
    with pytest.raises(TypeError):
        needs()


def test_numpy_exercises_do_not_pay_for_torch():
    code = (
        "import sys; from grader.testing import close, equal, given, integers, arrays, require, mean_within\n"
        "import numpy as np\n"
        "close(np.ones(3), np.ones(3)); equal([1, {'a': 2}], [1, {'a': 2}]); close(0.5, 0.5)\n"
        "given(x=arrays(n=(1, 9)))(lambda submission, x: close(x, x))(None)\n"
        "mean_within([0.0, 1.0] * 500, 0.5)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
