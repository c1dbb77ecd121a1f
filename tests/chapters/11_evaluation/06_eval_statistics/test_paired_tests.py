"""Hidden tests: paired tests. Oracles: scipy's ttest_rel, binomtest and permutation_test; frozen statsmodels results;
enumeration and dynamic programming on integers."""

import math
import random
from fractions import Fraction

import numpy as np
from scipy import stats

from grader.testing import (
    close,
    equal,
    executed_lines,
    given,
    integers,
    lists,
    needs,
    peak_memory,
    points,
    raises,
    require,
    sampled_from,
    warnings_are_errors,
)

A = [1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0]
B = [1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0]
EIGHT = [0.3, -0.1, 0.25, 0.4, 0.05, -0.2, 0.35, 0.1]

# statsmodels 0.15: contingency_tables.mcnemar([[10, gains], [losses, 4]], exact=True).pvalue
STATSMODELS = {
    (5, 1): 0.21875,
    (0, 4): 0.125,
    (7, 7): 1.0,
    (30, 12): 0.007915897334896727,
    (3, 200): 2.1693555718929497e-55,
}


def two_models(n, seed, kind, shared=0.7):
    """Scores of two models on n questions; the more `shared`, the more alike the models are. Never constant."""
    dice = np.random.default_rng(seed)
    hard, own_a, own_b = dice.normal(size=(3, n))
    a = shared * hard + (1 - shared) * own_a + 0.2
    b = shared * hard + (1 - shared) * own_b
    if kind == "right or wrong":
        a, b = (a > 0).astype(float), (b > 0).astype(float)
    elif kind == "quarters":
        a, b = np.clip(np.round(2 + 2 * a) / 4, 0, 1), np.clip(np.round(2 + 2 * b) / 4, 0, 1)
    elif kind == "shifted":
        a, b = a + 100, b + 100
    for scores, i in ((a, 0), (b, -1)):
        if (scores == scores[0]).all():
            scores[i] += 0.5
    if len(set((a - b).tolist())) == 1:
        a[0] += 0.25
    return a, b


def answers(gains, losses, both=0, neither=0):
    """0/1 scores of a and b with these counts, in an order that is not sorted by outcome."""
    pairs = [(1, 0)] * gains + [(0, 1)] * losses + [(1, 1)] * both + [(0, 0)] * neither
    random.Random(7).shuffle(pairs)
    return [a for a, _ in pairs], [b for _, b in pairs]


def binomial_p(gains, losses, mid=False):
    """McNemar's p, exactly."""
    n, fewer = gains + losses, min(gains, losses)
    p = Fraction(2 * sum(math.comb(n, k) for k in range(fewer + 1)), 2**n)
    return float(min(Fraction(1), p - (Fraction(math.comb(n, fewer), 2**n) if mid else 0)))


def sign_flip_p(d):
    """The exact p of integer differences: the number of patterns by their sum, one difference after the other."""
    ways = {0: 1}
    for x in filter(None, d):
        grown = {}
        for total, count in ways.items():
            for longer in (total + x, total - x):
                grown[longer] = grown.get(longer, 0) + count
        ways = grown
    extreme = sum(count for total, count in ways.items() if abs(total) >= abs(sum(d)))
    return extreme / sum(ways.values())


def close_within(got, expected, atol, what=""):
    close(got, expected, rtol=0.0, atol=atol, what=what)


@points(2)
def test_worked_example(submission):
    """Twelve questions, two models, 0/1 scores: every figure of the paired difference."""
    expected = {
        "diff": 1 / 3,
        "se": 0.1880253583,
        "ci": (-0.0805076899, 0.7471743566),
        "p": 0.1039157227,
        "unpaired_se": 0.1978418918,
        "correlation": 0.0975900073,
    }
    close(submission.paired_difference(A, B), expected, rtol=1e-8)


@points(2)
def test_worked_example_mcnemar(submission):
    """The same twelve questions: 5 gains, 1 loss, p 0.21875, mid-p 0.125."""
    gains, losses, p = submission.mcnemar(A, B)
    equal((gains, losses), (5, 1), "(gains, losses)")
    close(p, 0.21875, rtol=1e-12, what="p")
    close(submission.mcnemar(A, B, mid_p=True)[2], 0.125, rtol=1e-12, what="mid-p")
    equal(submission.mcnemar(B, A)[:2], (1, 5), "(gains, losses) with the models exchanged")


@points(2)
def test_sign_flip_example(submission):
    """Eight differences: 30 of the 256 sign patterns reach the observed sum, p = 0.1171875."""
    close(submission.sign_flip_test(EIGHT), 0.1171875, rtol=1e-12)
    d = [a - b for a, b in zip(A, B, strict=True)]
    close(submission.sign_flip_test(d), 0.21875, rtol=1e-12, what="the twelve questions above")


@points(3)
@given(
    n=integers(2, 130),
    kind=sampled_from(("normal", "right or wrong", "quarters", "shifted")),
    confidence=sampled_from((0.95, 0.8, 0.99)),
    container=sampled_from((list, tuple, np.array)),
    seed=integers(0, 9999),
    examples=25,
)
def test_matches_scipy(submission, n, kind, confidence, container, seed):
    """Random scores of all kinds: p, se and interval as scipy.stats.ttest_rel has them, at any confidence."""
    a, b = two_models(n, seed, kind)
    got = submission.paired_difference(container(a.tolist()), container(b.tolist()), confidence=confidence)
    found = stats.ttest_rel(a, b)
    interval = found.confidence_interval(confidence)
    d = a - b
    expected = {
        "diff": math.fsum(d) / n,
        "se": math.sqrt(math.fsum((d - math.fsum(d) / n) ** 2) / (n - 1) / n),
        "ci": (float(interval.low), float(interval.high)),
        "p": float(found.pvalue),
        "unpaired_se": math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n),
        "correlation": float(stats.pearsonr(a, b).statistic)
        if n > 2
        else float(np.sign((a[0] - a[1]) * (b[0] - b[1]))),
    }
    close(got, expected, rtol=1e-8, atol=1e-10)


@points(2)
def test_mcnemar_is_exact(submission):
    """All gains and losses up to 8, and some large ones: p and mid-p as exact sums, SciPy's and statsmodels' p."""
    counts = [(gains, losses) for gains in range(9) for losses in range(9)] + [(30, 12), (3, 200), (600, 520)]
    for mid in (False, True):
        results = submission.many("mcnemar", [((*answers(*pair),), {"mid_p": mid}) for pair in counts])
        for (gains, losses), got in zip(counts, results, strict=True):
            what = f"{gains} gains, {losses} losses, mid_p={mid}"
            equal((got[0], got[1]), (gains, losses), what)
            close(got[2], binomial_p(gains, losses, mid), rtol=1e-9, what=f"p of {what}")
            if not mid and gains + losses:
                close(got[2], float(stats.binomtest(gains, gains + losses).pvalue), rtol=1e-7, what=f"p of {what}")
    for (gains, losses), p in STATSMODELS.items():
        close(submission.mcnemar(*answers(gains, losses, 10, 4))[2], p, rtol=1e-9)
    close(submission.mcnemar(np.array(A), np.array(B, dtype=float))[2], 0.21875, rtol=1e-12, what="arrays")


@given(
    examples=15, n=integers(3, 60), kind=sampled_from(("normal", "right or wrong", "quarters")), seed=integers(0, 9999)
)
def test_variance_identity(submission, n, kind, seed):
    """n se^2 = var(a) + var(b) - 2 cov(a, b), and n unpaired_se^2 = var(a) + var(b)."""
    a, b = two_models(n, seed, kind)
    got = submission.paired_difference(a, b)
    covariance = np.cov(a, b)
    close(n * got["se"] ** 2, float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]), rtol=1e-9, atol=1e-12)
    close(n * got["unpaired_se"] ** 2, float(covariance[0, 0] + covariance[1, 1]), rtol=1e-9)


def test_correlated_models(submission):
    """A correlation of 0.9: the paired error is about a third of the unpaired one."""
    dice = np.random.default_rng(0)
    hard, own_a, own_b = dice.normal(size=(3, 2000))
    a, b = (math.sqrt(0.9) * hard + math.sqrt(0.1) * own for own in (own_a, own_b))
    got = submission.paired_difference(a, b)
    close_within(got["correlation"], 0.9, 0.02, "correlation")
    close_within(got["se"] / got["unpaired_se"], math.sqrt(0.1), 0.03, "se / unpaired_se")


@points(2)
def test_clusters_matter(submission):
    """Differences that are constant within 5 clusters of 20: a t-test of the 5 values, far from the plain p."""
    gain = [0.30, -0.05, 0.20, 0.10, 0.02]
    dice = np.random.default_rng(1)
    order = dice.permutation(100)
    clusters = [("passage", int(i) // 20) for i in order]
    b = np.round(dice.random(100), 2)
    a = b + np.array([gain[int(i) // 20] for i in order])
    found = stats.ttest_1samp(gain, 0.0)
    interval = found.confidence_interval(0.9)
    got = submission.paired_difference(a, b, clusters, confidence=0.9)
    close(got["p"], float(found.pvalue), rtol=1e-8, what="p")
    close(got["se"], float(stats.sem(gain)), rtol=1e-8, what="se")
    close(got["ci"], (float(interval.low), float(interval.high)), rtol=1e-8, what="ci")
    plain = submission.paired_difference(a, b)
    require(got["p"] > 1000 * plain["p"], "p with clusters / p without", got=got["p"] / plain["p"], expected="> 1000")
    close(got["unpaired_se"], plain["unpaired_se"], rtol=1e-12, what="unpaired_se, which clusters do not enter")
    # Labels are only asked whether they are equal: 1, "1" and (1,) are three clusters.
    names = (0, 1, "1", (1,), "0")
    got = submission.paired_difference(a, b, [names[int(i) // 20] for i in order], confidence=0.9)
    close(got["se"], submission.paired_difference(a, b, clusters)["se"], rtol=1e-12, what="se with labels 1 and '1'")


@given(examples=15, n=integers(3, 40), groups=integers(2, 6), seed=integers(0, 9999))
def test_unequal_clusters(submission, n, groups, seed):
    """Clusters of different sizes: residuals around the mean of all differences, factor G / (G - 1), t with G - 1."""
    groups = min(groups, n)
    a, b = two_models(n, seed, "normal")
    dice = random.Random(seed)
    member = [*range(groups), *(dice.randrange(groups) for _ in range(n - groups))]
    dice.shuffle(member)
    d = a - b
    diff = math.fsum(d) / n
    sums = [math.fsum(x - diff for x, g in zip(d, member, strict=True) if g == group) for group in range(groups)]
    se = math.sqrt(groups / (groups - 1) * math.fsum(total**2 for total in sums)) / n
    got = submission.paired_difference(a, b, [f"passage {g}" for g in member])
    close(got["se"], se, rtol=1e-8, what="se")
    close(got["p"], float(2 * stats.t.sf(abs(diff) / se, groups - 1)), rtol=1e-7, what="p")
    half = float(stats.t.ppf(0.975, groups - 1)) * se
    close(got["ci"], (diff - half, diff + half), rtol=1e-8, atol=1e-10, what="ci")


@points(2)
def test_sign_flip_equals_mcnemar(submission, rng):
    """500 random cases of 0/1 scores: the exact sign-flip test is McNemar's exact test."""
    cases = [rng.integers(-1, 2, size=int(n)).tolist() for n in np.sort(rng.integers(1, 13, size=500))]
    results = submission.many("sign_flip_test", [((d,), {}) for d in cases])
    for d, got in zip(cases, results, strict=True):
        close(got, binomial_p(d.count(1), d.count(-1)), rtol=1e-12, what=f"p of {d}")


@points(2)
@given(tenths=lists(integers(-9, 9), n=(0, 9)), unit=sampled_from((0.1, 1.0, 1e-7, 700.0)), examples=60)
def test_sign_flip_with_ties(submission, tenths, unit):
    """Differences of a coarse scale: sums that tie on paper count as ties, whatever the unit."""
    close(submission.sign_flip_test([x * unit for x in tenths]), sign_flip_p(tenths), rtol=1e-12)


def test_sign_flip_near_ties(submission):
    """Sums that differ by more than 1e-12 of the whole are no ties: a difference of 1e-8 beside one of 1."""
    close(submission.sign_flip_test([1.0, 1e-8]), 0.5, rtol=1e-12)
    close(submission.sign_flip_test([1.0, -2.0, -1e-9]), 0.75, rtol=1e-12)


def test_sign_flip_equals_scipy(submission):
    """30 samples of continuous differences: scipy.stats.permutation_test over all patterns."""
    for seed in range(30):
        dice = np.random.default_rng(seed)
        d = dice.normal(size=int(dice.integers(2, 11))) + 0.5
        found = stats.permutation_test(
            (d, np.zeros_like(d)),
            lambda a, b, axis: np.sum(a - b, axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
            vectorized=True,
        )
        close(submission.sign_flip_test(d), float(found.pvalue), rtol=1e-12)


def test_concordant_pairs_are_irrelevant(submission):
    """1000 more questions that both models solve change neither McNemar's nor the sign-flip test."""
    a, b = A + [1] * 1000, B + [1] * 1000
    gains, losses, p = submission.mcnemar(a, b)
    equal((gains, losses), (5, 1))
    close(p, 0.21875, rtol=1e-12)
    close(submission.mcnemar(a, b, mid_p=True)[2], 0.125, rtol=1e-12)
    close(submission.sign_flip_test([x - y for x, y in zip(a, b, strict=True)]), 0.21875, rtol=1e-12)
    close(submission.sign_flip_test(EIGHT + [0.0] * 500), 0.1171875, rtol=1e-12)


@points(2)
def test_sampled_patterns(submission):
    """Too many differences to enumerate: the p of a seed is that of the documented draw, and never 0."""
    for seed, m, resamples in ((0, 40, 9999), (1, 17, 500), (2, 60, 1)):
        d = np.random.default_rng(seed + 50).integers(-4, 7, size=m)
        d[d == 0] = 1
        signs = 2 * np.random.default_rng(seed).integers(0, 2, (resamples, m)) - 1
        hits = int((np.abs(signs @ d) >= abs(int(d.sum()))).sum())
        got = submission.sign_flip_test([0.1 * int(x) for x in d], rng=np.random.default_rng(seed), resamples=resamples)
        close(got, (1 + hits) / (1 + resamples), rtol=1e-12)
    # Zero differences are dropped before signs are drawn.
    d = [0.0, 0.5, 0.0, 0.25, -0.5]
    signs = 2 * np.random.default_rng(9).integers(0, 2, (99, 3)) - 1
    hits = int((np.abs(signs @ np.array([0.5, 0.25, -0.5])) >= 0.25).sum())
    got = submission.sign_flip_test(d, rng=np.random.default_rng(9), resamples=99, exact_limit=2)
    close(got, (1 + hits) / 100, rtol=1e-12, what="with zeros among the differences")
    one_sided = submission.sign_flip_test([1.0] * 40, rng=np.random.default_rng(0))
    close(one_sided, 1 / 10_000, rtol=1e-12, what="40 equal gains: no sample reaches them, and p is not 0")


def test_monte_carlo(submission):
    """40 differences, 200 seeds, 999 samples: the mean p is within 5 standard errors of (1 + 999 P) / 1000."""
    d = [1, 2, 3, -1, -2, 2, 1, -3, 4, 1] * 4
    exact = sign_flip_p(d)
    calls = [((d,), {"rng": np.random.default_rng(seed), "resamples": 999}) for seed in range(200)]
    results = submission.many("sign_flip_test", calls)
    expected = (1 + 999 * exact) / 1000
    error = math.sqrt(exact * (1 - exact) / 999 / 200)
    close_within(math.fsum(results) / 200, expected, 5 * error, "mean p of 200 seeds")


@points(2)
def test_exact_boundary(submission):
    """16 differences are enumerated without an rng, 17 are not: ValueError; exact_limit moves the boundary."""
    d = [1, -1, 2, 3, 1, 1, -2, 4, 5, 1, 2, -3, 2, 2, 1, -1]
    close(submission.sign_flip_test(d), sign_flip_p(d), rtol=1e-12)
    with raises(ValueError):
        submission.sign_flip_test([*d, 2])
    close(submission.sign_flip_test([*d, 2], exact_limit=17), sign_flip_p([*d, 2]), rtol=1e-12)
    with raises(ValueError):
        submission.sign_flip_test(d[:5], exact_limit=4)
    rng = np.random.default_rng(0)
    close(submission.sign_flip_test(d, rng=rng), sign_flip_p(d), rtol=1e-12, what="an rng is not used")
    equal(rng.bit_generator.state, np.random.default_rng(0).bit_generator.state, "state of the rng after an exact test")


def test_false_alarm_rate(submission):
    """20 questions, no true difference: McNemar rejects at 0.05 in at most 5 percent, mid-p in 2 to 7 (exactly)."""
    counts = [(gains, losses) for gains in range(21) for losses in range(21 - gains)]
    calls = [answers(gains, losses, 20 - gains - losses) for gains, losses in counts]
    for mid, low, high in ((False, 0.0, 0.05), (True, 0.02, 0.07)):
        results = submission.many("mcnemar", [(call, {"mid_p": mid}) for call in calls])
        for differ in (0.3, 0.5, 0.7):
            chance = stats.multinomial.pmf(
                [(g, l, 20 - g - l) for g, l in counts], 20, [differ / 2, differ / 2, 1 - differ]
            )
            rate = math.fsum(float(q) for q, result in zip(chance, results, strict=True) if result[2] <= 0.05)
            require(
                low <= rate <= high,
                f"models differ on {differ:.0%} of the questions, mid_p={mid}: rate of false alarms at level 0.05",
                got=rate,
                expected=f"{low} to {high}",
            )


@points(2)
def test_degenerate(submission):
    """Identical models: p 1 everywhere, no correlation of a constant; a constant gain: se 0 and p 0; no warning."""
    with warnings_are_errors(submission):
        got = submission.paired_difference([1, 0, 1, 1], [1, 0, 1, 1])
        close(
            got,
            {"diff": 0.0, "se": 0.0, "ci": (0.0, 0.0), "p": 1.0, "unpaired_se": math.sqrt(0.125), "correlation": 1.0},
        )
        a, b = [0.25, 0.5, 0.75, 0.125, 1.0], [0.125, 0.375, 0.625, 0.0, 0.875]
        got = submission.paired_difference(a, b)
        close(got["diff"], 0.125, rtol=1e-12)
        close((got["se"], got["p"]), (0.0, 0.0), what="(se, p) of a constant gain")
        close(got["ci"], (0.125, 0.125), rtol=1e-12, what="ci of a constant gain")
        close(submission.paired_difference(b, a)["p"], 0.0, what="p of a constant loss")
        got = submission.paired_difference(a, b, ["x", "x", "y", "y", "z"])
        close((got["se"], got["p"]), (0.0, 0.0), what="(se, p) of a constant gain in clusters")
        for a, b in (([1, 1, 1], [0, 1, 0]), ([0, 1, 0], [0.5, 0.5, 0.5]), ([1, 1], [0, 0])):
            got = submission.paired_difference(a, b)["correlation"]
            close(got, math.nan, what="correlation with a constant")
        equal(submission.mcnemar([1, 0, 1], [1, 0, 1]), (0, 0, 1.0))
        equal(submission.mcnemar([1, 0, 1], [1, 0, 1], mid_p=True), (0, 0, 1.0))
        close(submission.sign_flip_test([0.0, 0.0]), 1.0)
        close(submission.sign_flip_test([]), 1.0)


def test_bad_input(submission):
    """ValueError: unequal lengths, one question, one cluster, other scores than 0 and 1 for McNemar."""
    for a, b, clusters in (
        ([1, 0, 1], [1, 0], None),
        ([1, 0], [1, 0, 1], None),
        ([1], [0], None),
        ([1, 0, 1], [0, 0, 1], ["a", "a", "a"]),
        ([1, 0, 1], [0, 0, 1], ["a", "b"]),
    ):
        with raises(ValueError):
            submission.paired_difference(a, b, clusters)
    for a, b in (([1, 0, 0.5], [1, 0, 1]), ([1, 0, 1], [2, 0, 1]), ([1, 0, 1], [1, 0]), ([1, 0], [1, 0, 1])):
        with raises(ValueError):
            submission.mcnemar(a, b)


@needs("sign_flip_example")
@points(2)
def test_cost_exact_enumeration(submission):
    """All patterns of 16 differences: at most 1000 executed lines, at most 64 MiB at peak."""
    d = [0.1 * x for x in (1, -1, 2, 3, 1, 1, -2, 4, 5, 1, 2, -3, 2, 2, 1, -1)]
    with executed_lines(submission) as cost:
        submission.sign_flip_test(d)
    cost.at_most(1000, "no loop over the 65,536 patterns")
    with peak_memory(submission) as cost:
        submission.sign_flip_test(d)
    cost.at_most(64 * 2**20, "eight float64 arrays of shape (2^16, 16)")
