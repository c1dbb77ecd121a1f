"""Costs: what they say when a limit is passed, and what the judge learns of them."""

from __future__ import annotations

import contextlib
import types

import pytest

from grader.report import Cost as Recorded
from grader.testing import CheckFailed, counting, growth
from grader.testing.costs import (
    Cost,
    collect,
    dispatched,
    executed_lines,
    flops,
    largest_temporary,
    peak_memory,
    saved_for_backward,
)


class Submission:
    """Hands out these measurements, one for each call that a test is taken to have made."""

    def __init__(self, *results):
        self.results = list(results)
        self.asked = {}

    @contextlib.contextmanager
    def measure(self, probes):
        self.asked = probes
        yield types.SimpleNamespace(results=self.results)


def test_a_limit_that_is_passed_is_a_sentence():
    cost = Cost("largest temporary", 2048, "elements")
    with pytest.raises(CheckFailed) as caught:
        cost.at_most(512, "two blocks per row")
    error = caught.value
    assert error.message == "largest temporary: 2,048 elements; at most 512 (two blocks per row)"
    assert (error.got, error.expected) == ("2,048 elements", "at most 512 (two blocks per row)")
    assert error.costs == (Recorded("largest temporary", 2048, 512, "at most", "two blocks per row"),)


@pytest.mark.parametrize(
    ("relation", "good", "bad"), [("at_most", (7, 8), 6), ("at_least", (7, 6), 8), ("exactly", (7,), 8)]
)
def test_relations(relation, good, bad):
    for limit in good:
        getattr(Cost("count", 7), relation)(limit)
    with pytest.raises(CheckFailed, match=relation.replace("_", " ")):
        getattr(Cost("count", 7), relation)(bad)


def test_every_asserted_cost_is_collected_kept_or_exceeded():
    with collect() as outer:
        with collect() as inner:
            Cost("b", 2).at_least(1)
        with collect(), pytest.raises(CheckFailed):
            Cost("c", 3).exactly(4)
        Cost("a", 1).at_most(5, "why")
    assert inner == [Recorded("b", 2, 1, "at least", "")]
    assert outer == [Recorded("a", 1, 5, "at most", "why")]


def test_an_inner_collector_that_stays_empty_takes_nothing_from_the_outer():
    with collect() as outer:
        with collect():
            pass
        Cost("a", 1).at_most(5)
    assert [cost.name for cost in outer] == ["a"]


def test_what_probes_find_over_several_calls():
    first = {"largest_elements": 5, "largest_bytes": 40, "flops": 10, "ops": [["aten.mul", 5], ["aten.mm", 2]]}
    second = {"largest_elements": 9, "largest_bytes": 36, "flops": 32, "ops": [["aten.add", 9]]}
    submission = Submission({"torch": first}, {"torch": second})
    with largest_temporary(submission) as cost:
        pass
    assert cost.value == 9
    with largest_temporary(submission, unit="bytes") as cost:
        pass
    assert cost.value == 40
    with flops(submission) as cost:
        pass
    assert cost.value == 42
    with dispatched(submission) as ops:
        pass
    assert ops.value == 3
    assert ops.ops[-1] == ("aten.add", 9)
    ops.count(lambda name, elements: elements >= 5).exactly(2)
    with saved_for_backward(Submission({"saved": {"elements": 3}}, {"saved": {"elements": 4}})) as cost:
        pass
    assert cost.value == 7
    with peak_memory(Submission({"memory": {"peak_bytes": 3}}, {"memory": {"peak_bytes": 4}})) as cost:
        pass
    assert cost.value == 4
    with executed_lines(Submission({"lines": {"lines": 3}}, {"lines": {"lines": 4}})) as cost:
        pass
    assert cost.value == 7


def test_the_value_is_known_after_the_block_and_a_block_without_a_call_is_a_mistake():
    with largest_temporary(Submission({"torch": {"largest_elements": 5}})) as cost, pytest.raises(RuntimeError):
        cost.at_most(7)
    with pytest.raises(RuntimeError, match="no call"), flops(Submission()):
        pass


def test_counting_and_growth():
    function = counting(lambda a, b=1: a + b)
    assert [function(1), function(2, b=3)] == [2, 5]
    assert function.calls == 2
    assert function.arguments == [((1,), {}), ((2,), {"b": 3})]
    growth(lambda n: n, 1000, 2000).at_most(2.3, "linear")
    with pytest.raises(CheckFailed, match=r"growth from 1,000 to 2,000: 4; at most 2\.3 \(linear\)"):
        growth(lambda n: Cost("lines", n * n), 1000, 2000).at_most(2.3, "linear")
