"""`equal`: exact by value and by kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grader.testing.exact import equal
from grader.testing.failure import CheckFailed
from grader.testing.foreign import Foreign
from grader.worker.wire import Record


def rejected(*args, **kwargs) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        equal(*args, **kwargs)
    return caught.value


NAN = float("nan")


@pytest.mark.parametrize(
    "got, expected",
    [
        (3, 3),
        (np.int64(3), 3),
        (3, np.int64(3)),
        (np.bool_(True), True),
        (1, 1.0),
        (-0.0, 0.0),
        (NAN, NAN),
        (complex(NAN, 1), complex(NAN, 1)),
        (10**400, 10**400),
        (None, None),
        ("é", "é"),
        (b"ab", b"ab"),
        ([1, (2, "x"), {"a": [None]}], [1, (2, "x"), {"a": [None]}]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({np.int64(1): 2}, {1: 2}),
        ({1, (2, 3)}, {(2, 3), 1}),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN])),
        (torch.tensor([0.0]), torch.tensor([-0.0])),
        (torch.zeros(0, 2), torch.zeros(0, 2)),
        (torch.ones(2, 2).bfloat16().T, torch.ones(2, 2).bfloat16()),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (torch.float32, torch.float32),
        (range(3), range(3)),
        (Record("Block", {"ids": [1]}), Record("Block", {"ids": [1]})),
    ],
)
def test_accepts(got, expected):
    equal(got, expected)


@pytest.mark.parametrize(
    "got, expected, message",
    [
        (True, 1, "a bool (True), expected an int (1)"),
        (1, True, "an int (1), expected a bool (True)"),
        (3.0, 3, "a float (3), expected an int (3)"),
        ((1, 2), [1, 2], "a tuple, expected a list of 2 items"),
        ([1, 2], (1, 2), "a list, expected a tuple of 2 items"),
        ([1, 2, 3], [1, 5, 3], "item 1: 2, expected 5"),
        ([1, 2, 3], [1, 2], "3 items, expected 2; the first too many is 3"),
        ([1], [1, 2], "1 item, expected 2; the first missing is 2"),
        ([[1, 2], [3, 4]], [[1, 2], [3, 5]], "item 1[1]: 4, expected 5"),
        ({"a": 1}, {"a": 2}, "item 'a': 1, expected 2"),
        ({"a": 1}, {"a": 1, "b": 2}, "no key 'b'"),
        ({True: 1}, {1: 1}, "no key 1; unexpected key True"),
        ({1, 2}, {1, 3}, "3 is missing; 2 is too many"),
        ({True}, {1}, "1 is missing; True is too many"),
        (None, 3, "a NoneType (None), expected an int (3)"),
        (3, None, "an int, expected None"),
        (torch.tensor(3), 3, "a tensor of shape (), expected an int (3)"),
        ("abc", "abd", "'abc', expected 'abd'"),
        (b"abc", "abc", "a bytes, expected a str"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), "1 of 2 elements differs"),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 3.0]), "1 of 2 elements differs"),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), "dtype int64, expected float32"),
        (torch.ones(1, 2), torch.ones(2), "shape (1, 2), expected (2,)"),
        (np.ones(2), torch.ones(2), "a numpy array, expected a tensor of shape (2,)"),
        (Record("Block", {"ids": [1]}), Record("Block", {"ids": [2]}), "ids[0]: 1, expected 2"),
        (Record("Block", {"ids": [1]}), Record("Page", {"ids": [1]}), "a Block, expected a Page"),
        (Foreign("Token", "a subclass of str", "a plain str"), "a",
         "returned a Token, a subclass of str; return a plain str"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(got, expected, message):
    failure = rejected(got, expected)
    assert failure.message.replace("a NoneType (None)", "None").endswith(message.replace("a NoneType (None)", "None"))
    assert failure.got
    assert failure.expected


def test_names_the_thing():
    assert rejected([1], [2], what="ids").message == "ids[0]: 1, expected 2"


def test_texts_show_the_first_difference():
    failure = rejected("the quick brown fox jumps over the lazy cat", "the quick brown fox jumps over the lazy dog")
    assert failure.where == "first difference at character 40: 'c', expected 'd'"
    assert "too short: 3 characters, expected 5" in rejected("abc", "abcde").where


def test_look_alikes_are_told_apart():
    failure = rejected("e\u0301", "\u00e9")
    assert "LATIN SMALL LETTER E WITH ACUTE" in failure.where
    failure = rejected("a\u00a0b", "a b")
    assert failure.where == r"first difference at character 1: '\xa0' (NO-BREAK SPACE), expected ' '"


def test_tensors_show_where():
    expected = torch.arange(24).reshape(3, 8)
    got = expected.clone()
    got[:, 6:] = 0
    failure = rejected(got, expected)
    assert failure.message == "6 of 24 elements differ"
    assert failure.where.startswith("first at [0, 6]: got 0, expected 6; all 6 wrong elements are in columns 6..7")


def test_objects_that_equal_everything_do_not():
    class Yes:
        def __eq__(self, other):
            return True

        __hash__ = None

    for expected in (3, "a", [1], None, {"a": 1}, torch.ones(2)):
        rejected(Yes(), expected)

    class Int(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert rejected(Int(5), 3).message == "an Int, expected an int (3)"
