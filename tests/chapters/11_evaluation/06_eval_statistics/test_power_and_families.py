"""Hidden tests: power and multiplicity. Oracles: closed testing, enumeration, frozen statsmodels results, SciPy."""

import itertools
import math
import random

import numpy as np
from scipy import stats

from grader.testing import (
    close,
    equal,
    executed_lines,
    floats,
    fresh,
    given,
    integers,
    needs,
    points,
    raises,
    require,
    sampled_from,
)

P = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205]

# statsmodels 0.15: multipletests(p, method="holm")[1]
HOLM = (
    ([0.44, 0.07, 0.02, 0.13, 0.07, 0.48, 0.03], [0.88, 0.35, 0.14, 0.39, 0.35, 0.88, 0.18]),
    ([0.18, 0.52, 0.0], [0.36, 0.52, 0.0]),
    ([0.03, 0.38, 0.11], [0.09, 0.38, 0.22]),
    (
        [0.02, 0.05, 0.33, 0.6, 0.28, 0.15, 0.59, 0.47, 0.02, 0.0, 0.0, 0.05],
        [0.2, 0.4, 1.0, 1.0, 1.0, 0.9, 1.0, 1.0, 0.2, 0.0, 0.0, 0.4],
    ),
)


def p_values(seed):
    """Some p-values with ties, zeros and ones among them, in no order."""
    dice = random.Random(seed)
    power = dice.choice((1, 2, 4))
    return [round(dice.random() ** power, dice.choice((1, 2, 6))) for _ in range(dice.randint(1, 40))]


def closed_testing(p):
    """Holm by its proof: i is rejected if every family that holds i is, each by Bonferroni's test."""
    m = len(p)
    adjusted = [0.0] * m
    for size in range(1, m + 1):
        for family in itertools.combinations(range(m), size):
            together = min(1.0, size * min(p[i] for i in family))
            for i in family:
                adjusted[i] = max(adjusted[i], together)
    return adjusted


def step_down(p):
    """Holm, one p at a time: the smallest alpha at which the procedure reaches it."""
    adjusted, alpha = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        alpha = max(alpha, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = alpha
    return adjusted


def rejects(gains, losses, alpha):
    """McNemar's exact test, by summing binomial coefficients."""
    m = gains + losses
    tail = sum(math.comb(m, k) for k in range(min(gains, losses) + 1))
    return min(1.0, 2 * tail / 2**m) <= alpha


def enumerated_power(n, gain, loss, alpha):
    """Sum over all numbers of gains and losses."""
    total = []
    for gains in range(n + 1):
        for losses in range(n + 1 - gains):
            if rejects(gains, losses, alpha):
                ways = math.comb(n, gains) * math.comb(n - gains, losses)
                tie = max(0.0, 1 - gain - loss)
                total.append(ways * gain**gains * loss**losses * tie ** (n - gains - losses))
    return math.fsum(total)


def close_within(got, expected, atol, what=""):
    close(got, expected, rtol=0.0, atol=atol, what=what)


@points(2)
def test_questions_example(submission):
    """A gain of 3 points, omega^2 = 1/9: 969 questions without answer noise, 3876 with s^2 = 1/6, 1260 with K = 10."""
    equal(submission.questions_needed(0.03, 1 / 9, 0.0, 0.0), 969, "no answer noise")
    equal(submission.questions_needed(0.03, 1 / 9, 1 / 6, 1 / 6), 3876, "K = 1")
    equal(submission.questions_needed(0.03, 1 / 9, 1 / 6, 1 / 6, k_a=10, k_b=10), 1260, "K = 10")
    equal(submission.questions_needed(-0.03, 1 / 9, 0.0, 0.0), 969, "a loss of 3 points")


@points(2)
def test_detectable_example(submission):
    """198 questions find 13.3 points at K = 1, 7.6 at K = 10; the 164 of HumanEval find 14.6."""
    noise = (1 / 9, 1 / 6, 1 / 6)
    close_within(submission.minimum_detectable_effect(198, *noise), 0.1327333279, 1e-9, "198 questions, K = 1")
    got = submission.minimum_detectable_effect(198, *noise, k_a=10, k_b=10)
    close_within(got, 0.0756696393, 1e-9, "198 questions, K = 10")
    close_within(submission.minimum_detectable_effect(164, *noise), 0.1458447009, 1e-9, "164 questions, K = 1")


@points(2)
@given(
    n=integers(1, 5000),
    omega2=floats(0.01, 0.3),
    s2_a=floats(0.0, 0.25),
    s2_b=floats(0.0, 0.25),
    k_a=integers(1, 20),
    k_b=integers(1, 20),
    alpha=sampled_from((0.05, 0.01, 0.2)),
    power=sampled_from((0.8, 0.5, 0.95)),
    examples=40,
)
def test_formula(submission, n, omega2, s2_a, s2_b, k_a, k_b, alpha, power):
    """The minimum detectable effect for every argument, the two models' K apart; questions_needed is its inverse."""
    options = {"k_a": k_a, "k_b": k_b, "alpha": alpha, "power": power}
    z = stats.norm.isf(alpha / 2) - stats.norm.isf(power)
    expected = float(z) * math.sqrt((omega2 + s2_a / k_a + s2_b / k_b) / n)
    delta = submission.minimum_detectable_effect(n, omega2, s2_a, s2_b, **options)
    close(delta, expected, rtol=1e-9)
    equal(submission.questions_needed(expected, omega2, s2_a, s2_b, **options), n, "questions for the effect of n")
    more = submission.questions_needed(expected * (1 - 1e-4 / n), omega2, s2_a, s2_b, **options)
    equal(more, n + 1, "questions for an effect that is a little smaller")


@points(2)
@given(
    delta=floats(-0.3, 0.3),
    n=integers(1, 3000),
    omega2=floats(0.01, 0.3),
    s2_a=floats(0.0, 0.25),
    s2_b=floats(0.0, 0.25),
    k_a=integers(1, 20),
    k_b=integers(1, 20),
    alpha=sampled_from((0.05, 0.01, 0.2)),
    examples=40,
)
def test_normal_power(submission, delta, n, omega2, s2_a, s2_b, k_a, k_b, alpha):
    """P(|Z + delta / SE| > z) for every argument: a noncentral chi-square, both regions counted."""
    se = math.sqrt((omega2 + s2_a / k_a + s2_b / k_b) / n)
    expected = stats.ncx2.sf(stats.chi2.isf(alpha, 1), 1, (delta / se) ** 2) if abs(delta) > 1e-9 * se else alpha
    got = submission.normal_power(delta, n, omega2, s2_a, s2_b, k_a=k_a, k_b=k_b, alpha=alpha)
    close_within(got, float(expected), 1e-9)


def test_power_round_trip(submission):
    """The power at the minimum detectable effect is 0.8: the wrong side's region adds less than 1e-4."""
    dice = np.random.default_rng(3)
    for _ in range(20):
        n, omega2, s2_a, s2_b = int(dice.integers(5, 2000)), *dice.uniform(0.01, 0.25, size=3).tolist()
        k_a, k_b = dice.integers(1, 10, size=2).tolist()
        delta = submission.minimum_detectable_effect(n, omega2, s2_a, s2_b, k_a=k_a, k_b=k_b)
        close_within(submission.normal_power(delta, n, omega2, s2_a, s2_b, k_a=k_a, k_b=k_b), 0.8, 1e-4)


def test_power_at_zero(submission):
    """delta = 0 gives alpha; the power is the same for delta and -delta and rises with |delta| and n."""
    noise = (1 / 9, 1 / 6, 0.1)
    for alpha in (0.05, 0.01):
        close_within(submission.normal_power(0.0, 300, *noise, alpha=alpha), alpha, 1e-12, "power at delta = 0")
    for delta in (0.01, 0.05, 0.1):
        gain, loss = (submission.normal_power(sign * delta, 300, *noise) for sign in (1, -1))
        close(loss, gain, rtol=1e-12, what=f"power at -{delta}")
    rising = [submission.normal_power(delta, 300, *noise) for delta in (0.0, 0.02, 0.05, 0.1)]
    require(rising == sorted(rising), "power must rise with delta", got=rising)
    rising = [submission.normal_power(-0.05, n, *noise) for n in (10, 100, 1000)]
    require(rising == sorted(rising), "power must rise with n", got=rising)


@points(2)
def test_mcnemar_power_example(submission):
    """12 percent gains, 5 percent losses: 0.618 on 200 questions, 0.965 on 500; no difference: less than 0.05."""
    for n, gain, loss, expected in (
        (200, 0.12, 0.05, 0.6176389497),
        (500, 0.12, 0.05, 0.9652399523),
        (200, 0.08, 0.08, 0.0314940509),
        (1000, 0.08, 0.08, 0.0414761419),
    ):
        close_within(submission.mcnemar_power(n, gain, loss), expected, 1e-9, f"n = {n}, gain {gain}, loss {loss}")


@points(3)
@given(
    n=integers(0, 8),
    rates=sampled_from(((0.3, 0.2), (0.0, 0.4), (0.5, 0.5), (1.0, 0.0), (0.75, 0.1), (0.01, 0.9))),
    alpha=sampled_from((0.05, 0.2, 0.3, 0.7)),
    examples=60,
)
def test_mcnemar_power_by_enumeration(submission, n, rates, alpha):
    """n up to 8: the sum over all numbers of gains and losses, for several levels."""
    close_within(submission.mcnemar_power(n, *rates, alpha), enumerated_power(n, *rates, alpha), 1e-9)


def test_mcnemar_power_edges(submission):
    """No disagreement gives 0.0; gain and loss may be exchanged; together above 1: ValueError."""
    close(submission.mcnemar_power(50, 0.0, 0.0), 0.0)
    close_within(submission.mcnemar_power(60, 0.05, 0.2, 0.01), enumerated_power(60, 0.2, 0.05, 0.01), 1e-9)
    with raises(ValueError):
        submission.mcnemar_power(50, 0.7, 0.4)


@points(2)
def test_holm_bh_example(submission):
    """Eight p-values, five below 0.05: Benjamini-Hochberg keeps two, Holm one."""
    close(submission.holm(np.array(P)), [0.008, 0.056, *[0.234] * 6], rtol=1e-12, what="holm")
    expected = [0.008, 0.032, 0.0672, 0.0672, 0.0672, 0.08, 0.592 / 7, 0.205]
    close(submission.benjamini_hochberg(np.array(P)), expected, rtol=1e-12, what="benjamini_hochberg")


@points(3)
def test_matches_libraries(submission):
    """200 vectors with ties, zeros and ones, unsorted: SciPy's and statsmodels' values, Holm by its definitions."""
    vectors = sorted((p_values(seed) for seed in range(200)), key=len)
    for name, oracle in (("holm", step_down), ("benjamini_hochberg", stats.false_discovery_control)):
        results = submission.many(name, [((np.array(p),), {}) for p in vectors])
        for p, got in zip(vectors, results, strict=True):
            close(got, np.array(oracle(p), dtype=float), rtol=1e-12, atol=1e-12, what=f"{name}(np.array({p}))")
    for p in (vector for vector in vectors if len(vector) <= 7):
        close(submission.holm(np.array(p)), np.array(closed_testing(p)), rtol=1e-12, atol=1e-12)
    for p, expected in HOLM:
        close(submission.holm(np.array(p)), np.array(expected), rtol=1e-12, atol=1e-12)


def test_arrays_in_and_out(submission):
    """A new float64 array comes back, an empty one for none; NaN and values outside [0, 1] raise ValueError."""
    for function in (submission.holm, submission.benjamini_hochberg):
        got = function(np.array([0.5, 0.01, 1.0]))
        fresh(got)
        close(got[1:], np.array([0.03, 1.0]), dtype=np.float64)
        equal(function(np.array([])), np.array([]))
        for bad in ([0.5, math.nan], [-0.1, 0.5], [0.5, 1.1]):
            with raises(ValueError):
                function(np.array(bad))


@points(2)
def test_claims_family(submission):
    """Names come sorted; 'fdr' claims at least what 'fwer' does; the family's size decides."""
    p = dict(zip("hgfedcba", P, strict=True))
    equal(submission.claims(p), ["h"], "claims(p)")
    equal(submission.claims(p, control="fdr"), ["g", "h"], 'claims(p, control="fdr")')
    equal(
        submission.claims(p, control="fdr", alpha=0.07),
        ["d", "e", "f", "g", "h"],
        'claims(p, control="fdr", alpha=0.07)',
    )
    equal(submission.claims(p, alpha=0.06), ["g", "h"], "claims(p, alpha=0.06)")
    for others, claimed in ((9, ["math"]), (19, [])):
        family = {"math": 0.004, **{f"task {i}": 0.9 for i in range(others)}}
        equal(submission.claims(family), claimed, f"0.004 beside {others} times 0.9")
    for seed in range(30):
        family = {f"task {i}": value for i, value in enumerate(p_values(seed))}
        strict, loose = submission.claims(family), submission.claims(family, control="fdr")
        require(set(strict) <= set(loose), "'fwer' claims what 'fdr' does not", got=strict, expected=loose)
    for control in ("fwer", "fdr"):
        # 2 * 0.05 is 0.1 to the last bit.
        family = {"a": 0.05, "b": 1.0}
        equal(submission.claims(family, alpha=0.1, control=control), ["a"], "an adjusted p-value equal to alpha")
    equal(submission.claims({}), [], "claims({})")
    equal(submission.claims({}, control="fdr"), [], 'claims({}, control="fdr")')
    with raises(ValueError):
        submission.claims(p, control="none")


def test_error_rates(submission, rng):
    """1500 families of 20 true nulls: Holm claims anything in 5 percent; with 10 real effects the false share of BH."""
    nulls = rng.random((1500, 20))
    names = [f"task {i:02}" for i in range(20)]
    calls = [((dict(zip(names, row.tolist(), strict=True)),), {}) for row in nulls]
    claimed = sum(bool(found) for found in submission.many("claims", calls))
    # Five standard errors of a share of 0.05 among 1500.
    highest = 0.05 + 5 * math.sqrt(0.05 * 0.95 / 1500)
    require(claimed / 1500 <= highest, "share of the families with a false claim", got=claimed / 1500, expected=0.05)
    mixed = nulls[:500].copy()
    mixed[:, :10] = stats.norm.sf(rng.normal(4.0, 1.0, size=(500, 10))) * 2
    mixed = np.clip(mixed, 0.0, 1.0)
    calls = [((dict(zip(names, row.tolist(), strict=True)),), {"control": "fdr"}) for row in mixed]
    shares, found_real = [], 0
    for found in submission.many("claims", calls):
        false = sum(name >= names[10] for name in found)
        shares.append(false / max(1, len(found)))
        found_real += len(found) - false
    # The expected share is 0.05 * 10 / 20 = 0.025, its standard error about 0.003.
    require(
        np.mean(shares) <= 0.05, "mean share of false claims", got=float(np.mean(shares)), expected="0.025, <= 0.05"
    )
    require(
        found_real / 5000 >= 0.8, "share of the real effects that are claimed", got=found_real / 5000, expected=0.94
    )


def test_bad_input(submission):
    """No number of questions shows a difference of 0: ValueError."""
    with raises(ValueError):
        submission.questions_needed(0.0, 1 / 9, 1 / 6, 1 / 6)


@needs("mcnemar_power_example")
@points(2)
def test_cost_mcnemar_power(submission):
    """mcnemar_power(1000, ...) takes at most 20,000 executed lines."""
    with executed_lines(submission) as cost:
        submission.mcnemar_power(1000, 0.1, 0.08)
    cost.at_most(20_000, "a few per number of disagreements, no loop over gains and losses")
