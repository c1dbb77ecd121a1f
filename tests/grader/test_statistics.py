"""Statistical checks: the false alarm rate is what it says, and wrong samplers are found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from grader.testing.failure import CheckFailed
from grader.testing.statistics import frequencies_match, mean_within


def rejected(check, *args, **kwargs) -> bool:
    try:
        check(*args, **kwargs)
    except CheckFailed:
        return True
    return False


@pytest.mark.parametrize(
    "probabilities",
    [[0.25] * 4, [0.9, 0.09, 0.01], [0.001, 0.999], [1 / 50] * 50, [0.5, 0.5, 0.0]],
)
@pytest.mark.parametrize("n", [20, 300, 3000])
def test_false_alarms_of_frequencies(probabilities, n):
    rng = np.random.default_rng(n)
    for rate in (1e-2, 1e-1):
        runs = 1000
        alarms = sum(
            rejected(frequencies_match, rng.multinomial(n, probabilities), probabilities, rate) for _ in range(runs)
        )
        assert alarms <= runs * rate


@pytest.mark.parametrize("real, n, power", [(0.28, 10_000, 0.94), (0.32, 2000, 0.95)])
def test_power_of_frequencies(real, n, power):
    rng = np.random.default_rng(0)
    wrong = [real] + [(1 - real) / 3] * 3
    found = sum(rejected(frequencies_match, rng.multinomial(n, wrong), [0.25] * 4) for _ in range(400)) / 400
    assert abs(found - power) < 0.05


def test_many_small_deviations_add_up():
    rng = np.random.default_rng(0)
    right = np.full(100, 0.01)
    wrong = right * np.where(np.arange(100) % 2, 1.15, 0.85)
    counts = rng.multinomial(20_000, wrong)
    with pytest.raises(CheckFailed) as caught:
        frequencies_match(counts, right)
    assert "all 100 categories together" in caught.value.where


def test_frequencies_name_the_worst_category():
    with pytest.raises(CheckFailed) as caught:
        frequencies_match(Counter(a=700, b=300), {"a": 0.5, "b": 0.25, "c": 0.25}, what="next token")
    assert caught.value.message == "next token: 'c' came 0 times in 1,000 draws, expected about 250"
    assert caught.value.expected == "a share of 0.25"


def test_impossible_categories_fail_at_once():
    with pytest.raises(CheckFailed) as caught:
        frequencies_match([999, 1], [1.0, 0.0])
    assert caught.value.where == "it has probability 0"
    with pytest.raises(CheckFailed):
        frequencies_match({"a": 1, "x": 1}, {"a": 1.0})
    frequencies_match([1000, 0], [1.0, 0.0])
    frequencies_match(torch.tensor([500, 500]), torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize(
    "draw, mean",
    [
        (lambda rng, n: rng.standard_normal(n), 0.0),
        (lambda rng, n: rng.exponential(size=n), 1.0),
        (lambda rng, n: (rng.random(n) < 0.05) * 1.0, 0.05),
        (lambda rng, n: rng.geometric(0.3, n), 1 / 0.3),
    ],
)
@pytest.mark.parametrize("n", [100, 1000])
def test_false_alarms_of_means(draw, mean, n):
    rng = np.random.default_rng(n)
    runs, rate = 2000, 1e-2
    alarms = sum(rejected(mean_within, draw(rng, n), mean, rate) for _ in range(runs))
    # Three standard deviations of room for the simulation itself.
    assert alarms <= runs * rate + 3 * (runs * rate) ** 0.5


def test_false_alarms_with_bounds_hold_for_any_distribution():
    rng = np.random.default_rng(0)
    alarms = sum(rejected(mean_within, (rng.random(20) < 0.02) * 1.0, 0.02, 1e-1, bounds=(0, 1)) for _ in range(2000))
    assert alarms <= 200


def test_power_of_means():
    rng = np.random.default_rng(0)
    found = sum(rejected(mean_within, rng.standard_normal(1000) + 0.2, 0.0) for _ in range(400)) / 400
    assert 0.86 < found < 0.96
    assert rejected(mean_within, (rng.random(5000) < 0.55) * 1.0, 0.5)


def test_means_say_how_far():
    with pytest.raises(CheckFailed) as caught:
        mean_within([1.0, 2.0] * 100, 2.0, what="accepted tokens")
    assert caught.value.message == "the mean of accepted tokens over 200 samples is 1.5, expected 2"
    assert "chance explains up to" in caught.value.where
    with pytest.raises(CheckFailed):
        mean_within([3.0] * 100, 2.0)
    mean_within([3.0] * 100, 3.0)
    mean_within(torch.tensor([3.0] * 100), 3.0)
    mean_within([1] * 20, 1.0)
    with pytest.raises(CheckFailed, match="nan"):
        mean_within([float("nan")] * 100, 2.0)
    with pytest.raises(CheckFailed, match="outside"):
        mean_within([2.0], 0.5, bounds=(0, 1))


def test_author_errors_are_clear():
    with pytest.raises(ValueError, match="too few"):
        mean_within([1.0, 2.0], 1.5)
    with pytest.raises(ValueError, match="sum to"):
        frequencies_match([1, 2], [0.5, 0.6])
    with pytest.raises(ValueError, match="3 counts"):
        frequencies_match([1, 2, 3], [0.5, 0.5])
    with pytest.raises(ValueError, match="no draws"):
        frequencies_match([0, 0], [0.5, 0.5])
    with pytest.raises(ValueError, match="false_alarm"):
        mean_within([1.0] * 50, 1.0, 0.0)
