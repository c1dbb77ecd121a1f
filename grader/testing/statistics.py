"""Statistical checks of random results, with a stated rate of false alarms.

A right program fails such a check at most once in a million runs. Both checks hold for every number of draws, not only
in the limit: they use exact or proven bounds where the textbook test is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from grader.testing.failure import CheckFailed
from grader.testing.kinds import is_array, is_tensor
from grader.testing.render import number, short


def frequencies_match(counts: Any, probabilities: Any, false_alarm: float = 1e-6, what: str = "") -> None:
    """Fail if `counts` of independent draws cannot come from `probabilities` (both sequences, or dicts by category).

    A right sampler fails with a probability of at most `false_alarm`. Half of it goes to the single categories (exact
    binomial tails, Bonferroni), half to all together: the divergence n KL(counts / n || p) of k categories exceeds
    x > k - 1 with probability at most exp(-x) (e x / (k - 1)) ** (k - 1) for every n (Agrawal 2020). A category of
    probability 0 must not occur at all.

    Power, over four categories of 0.25 each: 10,000 draws find a category that really has 0.28 in 94 of 100 cases,
    2,000 draws one that has 0.32 in 95 of 100.

    >>> frequencies_match({"a": 4991, "b": 5009}, {"a": 0.5, "b": 0.5})
    >>> frequencies_match([0, 130, 870], [0.0, 0.125, 0.875], what="accepted tokens")
    """
    __tracebackhide__ = True
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm={false_alarm}: it is a probability")
    seen, right = _by_category(counts), _by_category(probabilities)
    if not isinstance(probabilities, Mapping) and len(seen) != len(right):
        raise ValueError(f"{len(seen)} counts, but {len(right)} probabilities")
    total_p = math.fsum(right.values())
    if min(right.values(), default=0.0) < 0 or abs(total_p - 1) > 1e-6:
        raise ValueError(f"probabilities sum to {total_p}")
    n = round(sum(seen.values()))
    if n == 0:
        raise ValueError("no draws")
    for category, count in seen.items():
        if count and not right.get(category):
            raise _failure(what, category, count, n, 0.0, "it has probability 0")

    from scipy import special

    alone = false_alarm / 2 / len(right) / 2
    worst, smallest = None, 1.0
    divergence = 0.0
    for category, p in right.items():
        p = min(1.0, p / total_p)
        count = seen.get(category, 0)
        if p == 0.0:
            continue
        if count:
            divergence += count * math.log(count / (n * p))
        upper = float(special.bdtrc(count - 1, n, p)) if count > 0 else 1.0
        lower = float(special.bdtr(count, n, p)) if count < n else 1.0
        if min(upper, lower) <= smallest:
            worst, smallest = category, min(upper, lower)
    if worst is None:
        return
    if smallest <= alone:
        sentence = "as rare as " + ("1e-300" if smallest < 1e-300 else f"{2 * smallest:.1g}")
        raise _failure(what, worst, seen.get(worst, 0), n, right[worst], sentence)
    k = sum(p > 0 for p in right.values())
    if k > 1 and divergence > k - 1:
        log_rate = -divergence + (k - 1) * (1 + math.log(divergence / (k - 1)))
        if log_rate <= math.log(false_alarm / 2):
            sentence = f"all {k} categories together: at most {math.exp(log_rate):.1g} likely"
            raise _failure(what, worst, seen.get(worst, 0), n, right[worst], sentence)


def mean_within(
    samples: Any,
    mean: float,
    false_alarm: float = 1e-6,
    what: str = "",
    *,
    bounds: tuple[float, float] | None = None,
) -> None:
    """Fail if independent `samples` cannot have this mean.

    A right program fails with a probability of at most `false_alarm`. Samples that are all 0 or 1 get the exact
    binomial test. Others get Student's t test, widened for their skewness (z becomes z + |skewness| z^2 / (3 sqrt n));
    it takes 100 samples or more, and its rate is approximate: no test for heavy tails or rare large values. With
    `bounds`, between which every sample must lie, the rate is proven for any distribution and any number of samples
    (Hoeffding), at less power.

    Power: with 1,000 samples of standard deviation 1, a mean that is off by 0.2 is found in 91 of 100 cases.

    >>> mean_within([len(drafts) for drafts in accepted], 2.75, what="accepted tokens per step")
    >>> mean_within(hits, 0.95, bounds=(0, 1))
    """
    __tracebackhide__ = True
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm={false_alarm}: it is a probability")
    values = [float(x) for x in _plain(samples)]
    n = len(values)
    if not all(map(math.isfinite, values)):
        bad = next(x for x in values if not math.isfinite(x))
        raise CheckFailed(f"{what or 'a sample'} is {bad}", got=short(values), aspect="finite")
    average = math.fsum(values) / n if n else 0.0
    yes_or_no = bounds is None and 0 <= mean <= 1 and all(x in (0.0, 1.0) for x in values)
    if n < (1 if bounds or yes_or_no else 100):
        raise ValueError(f"{n} samples are too few for a t test; draw 100 or more, or give bounds")
    if bounds is not None:
        low, high = bounds
        outside = next((x for x in values if not low <= x <= high), None)
        if outside is not None:
            raise CheckFailed(f"{what or 'a sample'} is {number(outside)}, outside {low} to {high}", got=short(values))
        allowed = (high - low) * math.sqrt(math.log(2 / false_alarm) / (2 * n))
    elif yes_or_no:
        allowed = _binomial_bound(n, round(math.fsum(values)), mean, false_alarm)
    else:
        allowed = _t_bound(values, average, false_alarm)
    error = abs(average - mean)
    if not error <= allowed + 1e-12 * abs(mean):
        subject = f"the mean of {what}" if what else "the mean"
        raise CheckFailed(
            f"{subject} over {n:,} samples is {number(average)}, expected {number(mean)}",
            got=number(average),
            expected=f"{number(mean)} ± {number(allowed, 3)}",
            where=f"off by {error:.3g}; chance explains up to {allowed:.3g} (false alarm rate {false_alarm:g})",
            aspect=f"mean {what}".strip(),
        )


def _binomial_bound(n: int, ones: int, p: float, false_alarm: float) -> float:
    """How far the share of ones may be from p, on the side where it is."""
    from scipy import special

    upward = ones > n * p
    if p in (0.0, 1.0):
        return 0.0
    # The furthest count whose tail is still more likely than half the rate, by bisection.
    inside, outside = (math.floor(n * p), n + 1) if upward else (math.ceil(n * p), -1)
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        tail = special.bdtrc(middle - 1, n, p) if upward else special.bdtr(middle, n, p)
        inside, outside = (middle, outside) if tail > false_alarm / 2 else (inside, middle)
    return abs(inside / n - p)


def _t_bound(values: Sequence[float], average: float, false_alarm: float) -> float:
    from scipy import special

    n = len(values)
    variance = math.fsum((x - average) ** 2 for x in values) / (n - 1)
    if variance == 0.0:
        return 0.0
    deviation = math.sqrt(variance)
    skewness = math.fsum((x - average) ** 3 for x in values) / n / deviation**3
    z = float(-special.stdtrit(n - 1, false_alarm / 2))
    # A self-normalised mean has P(t > z) ~ (1 - Phi(z)) exp(-skewness z^3 / (3 sqrt n)): one tail is heavier.
    z += abs(skewness) * z * z / (3 * math.sqrt(n))
    return z * deviation / math.sqrt(n)


def _plain(values: Any) -> Any:
    return values.reshape(-1).tolist() if is_tensor(values) or is_array(values) else values


def _by_category(values: Any) -> dict[Any, Any]:
    if isinstance(values, Mapping):
        return {key: values[key] for key in values}
    return dict(enumerate(_plain(values)))


def _failure(what: str, category: Any, count: float, n: int, p: float, why: str) -> CheckFailed:
    share = count / n
    subject = f"{what}: {short(category)}" if what else short(category)
    return CheckFailed(
        f"{subject} came {round(count):,} times in {n:,} draws, expected about {n * p:,.0f}",
        got=f"a share of {number(share, 4)}",
        expected=f"a share of {number(p, 4)}",
        where=why,
        aspect=f"frequencies {what}".strip(),
    )
