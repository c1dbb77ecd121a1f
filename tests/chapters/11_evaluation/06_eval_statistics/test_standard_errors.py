"""Hidden tests: standard errors. Oracles: statistics.stdev, frozen statsmodels results, fractions, expectations."""

import math
import random
import statistics
from fractions import Fraction

import numpy as np
from scipy import stats

from grader.testing import close, given, integers, points, raises, require, sampled_from

SCORES = [1, 1, 1, 0, 0, 0, 1, 0, 1, 1]
PASSAGES = list("aaabbbccdd")

# statsmodels 0.15: OLS(scores, constant).fit(cov_type="cluster", groups=clusters).bse for clustered_data(0), (1), ...
STATSMODELS = (
    0.1036773842263, 0.05291957097082, 0.06351961950059, 0.03906196650908, 0.04973300938232, 0.04563347891978,
    0.04229094572609, 0.03261848788618, 0.08226419789392, 0.05138264465629, 0.06594871794872, 0.05538014767145,
    0.06633252051946, 0.08022886921718, 0.1189587022437, 0.0667890625, 0.04964624520547, 0.06283838004833,
    0.04026214728447, 0.03847826086957, 0.05316805694012, 0.03239381509067, 0.08504889773422, 0.0562862099178,
    0.07525837426114, 0.1884663923182, 0.07175231325609, 0.05547164940593, 0.08060098924124, 0.09506493798083,
    0.09398169266669, 0.1660294485258, 0.09398639874305, 0.07023636382734, 0.06055019383058, 0.04339828786522,
    0.01636805555556, 0.04327152815151, 0.04640160243457, 0.04663403690908, 0.062773824584, 0.0373786347277,
    0.0710499338589, 0.09305998065764, 0.09176973400848, 0.0444147417612, 0.04588231714611, 0.02348973612112,
    0.09225917128321, 0.009265875495706,
)  # fmt: skip


def clustered_data(seed):
    """(scores, clusters): partial credit with a common part per cluster; clusters in any order and of any size."""
    dice = random.Random(seed)
    n = dice.randint(3, 60) if seed else 3
    groups = dice.randint(2, min(n, 12))
    effect = [dice.random() for _ in range(groups)]
    clusters = [*range(groups), *(dice.randrange(groups) for _ in range(n - groups))]
    dice.shuffle(clusters)
    return [round(0.5 * effect[g] + 0.5 * dice.random(), 3) for g in clusters], clusters


def drawn_scores(kind, n, seed):
    """n scores; never all equal."""
    dice = random.Random(seed)
    if kind == "right or wrong":
        scores = [float(dice.random() < 0.6) for _ in range(n)]
    elif kind == "partial credit":
        scores = [dice.randrange(5) / 4 for _ in range(n)]
    else:
        scores = [1000.0 + dice.gauss(0, 1) for _ in range(n)]
    if len(set(scores)) == 1:
        scores[0] += 0.5
    return scores


def share_without_success(n, c, k):
    """g_k, exactly: C(n - c, k) / C(n, k), or with k and c exchanged, which is the same, if that is less work."""
    few, many = min(c, k), max(c, k)
    return Fraction(math.perm(n - many, few), math.perm(n, few))


def close_within(got, expected, atol, what=""):
    close(got, float(expected), rtol=0.0, atol=atol, what=what)


@points(2)
def test_clustered_example(submission):
    """Ten questions in four passages, by hand: both errors, the design effect, the interval with t for 3 degrees."""
    close_within(submission.standard_error(SCORES), 0.16329932, 1e-8, "standard_error")
    close_within(
        submission.clustered_standard_error(SCORES, PASSAGES), math.sqrt(4 / 3 * 5.36) / 10, 1e-12, "clustered"
    )
    close_within(submission.design_effect(SCORES, PASSAGES), 2.68, 1e-10, "design_effect")
    close(submission.mean_interval(SCORES, PASSAGES), (-0.25077133, 1.45077133), rtol=0.0, atol=1e-8)


@points(2)
@given(
    kind=sampled_from(("right or wrong", "partial credit", "shifted")),
    n=integers(2, 130),
    container=sampled_from((list, tuple, np.array)),
    seed=integers(0, 9999),
    examples=40,
)
def test_plain_error(submission, kind, n, container, seed):
    """s / sqrt(n) with n - 1 in the denominator: 0/1 scores, partial credit, shifted scores; list, tuple, array."""
    scores = drawn_scores(kind, n, seed)
    expected = statistics.stdev(scores) / math.sqrt(n)
    close(submission.standard_error(container(scores)), expected, rtol=1e-9)


@given(kind=sampled_from(("right or wrong", "partial credit")), n=integers(2, 130), seed=integers(0, 9999))
def test_singletons_reduce_to_plain(submission, kind, n, seed):
    """Every question its own cluster: the clustered error is the plain one, and the design effect 1."""
    scores = drawn_scores(kind, n, seed)
    expected = statistics.stdev(scores) / math.sqrt(n)
    close(submission.clustered_standard_error(scores, list(range(n))), expected, rtol=1e-11)
    close(submission.design_effect(scores, list(range(n))), 1.0, rtol=1e-11)


@points(3)
def test_matches_statsmodels(submission):
    """50 data sets against the cluster-robust error of statsmodels' regression on a constant."""
    sizes = sorted(range(50), key=lambda seed: len(clustered_data(seed)[0]))
    for seed in sizes:
        scores, clusters = clustered_data(seed)
        close(submission.clustered_standard_error(scores, clusters), STATSMODELS[seed], rtol=1e-10)
        plain = statistics.variance(scores) / len(scores)
        close(submission.design_effect(scores, clusters), STATSMODELS[seed] ** 2 / plain, rtol=1e-9)


@given(kind=sampled_from(("right or wrong", "partial credit")), n=integers(2, 40), seed=integers(0, 9999))
def test_duplicated_questions(submission, kind, n, seed):
    """Each question copied five times, as a cluster: the clustered error is that of the originals."""
    originals = drawn_scores(kind, n, seed)
    scores = [score for score in originals for _ in range(5)]
    clusters = [i for i in range(n) for _ in range(5)]
    expected = statistics.stdev(originals) / math.sqrt(n)
    close(submission.clustered_standard_error(scores, clusters), expected, rtol=1e-11)
    shrunk = expected * math.sqrt((n - 1) / (5 * n - 1))
    close(submission.standard_error(scores), shrunk, rtol=1e-11, what="plain error of the copies")


def test_negative_correlation(submission):
    """Scores that balance out within clusters: a design effect below 1, and 0 where every cluster sums to the same."""
    close_within(submission.clustered_standard_error([0, 1, 1, 0, 0, 1], [1, 1, 2, 2, 3, 3]), 0.0, 1e-12)
    close_within(submission.design_effect([0, 1, 1, 0, 0, 1], [1, 1, 2, 2, 3, 3]), 0.0, 1e-12, "design_effect")
    scores = [1.0, 0.5, 0.0, 0.75, 0.25, 0.0]
    clusters = ["x", "y", "x", "z", "y", "z"]
    mean = sum(scores) / 6
    sums = [1.0 + 0.0 - 2 * mean, 0.5 + 0.25 - 2 * mean, 0.75 + 0.0 - 2 * mean]
    clustered = 3 / 2 * sum(total**2 for total in sums) / 36
    plain = statistics.variance(scores) / 6
    got = submission.design_effect(scores, clusters)
    close(got, clustered / plain, rtol=1e-9)
    require(got < 1, "these scores balance out within clusters", got=got, expected="below 1")


def test_any_hashable_label(submission):
    """Labels are only compared: strings, tuples, mixed kinds, numpy arrays; members of a cluster anywhere."""
    scores = [1, 0, 1, 1, 0, 0, 1]
    numbers = [0, 1, 0, 2, 1, 2, 0]
    residuals = [score - 4 / 7 for score in scores]
    sums = [sum(e for e, g in zip(residuals, numbers, strict=True) if g == group) for group in range(3)]
    expected = math.sqrt(3 / 2 * sum(total**2 for total in sums)) / 7
    for names in (("long", "lo", "l"), (("p", 1), ("p", 2), ("q", 1)), (1, "1", (1,)), (-5, 10**9, 0)):
        labels = [names[g] for g in numbers]
        close(submission.clustered_standard_error(scores, labels), expected, rtol=1e-12)
    close(submission.clustered_standard_error(np.array(scores, float), np.array(numbers)), expected, rtol=1e-12)
    close(submission.clustered_standard_error(tuple(scores), tuple("xyxzyzx")), expected, rtol=1e-12)
    right = [score == 1 for score in scores]
    close(submission.clustered_standard_error(right, list("xyxzyzx")), expected, rtol=1e-12, what="bool scores")
    close(submission.standard_error(right), math.sqrt(2 / 49), rtol=1e-12, what="bool scores, plain")


@points(2)
@given(
    n=integers(2, 40), confidence=sampled_from((0.95, 0.5, 0.8, 0.99)), seed=integers(0, 9999), clustered=integers(0, 1)
)
def test_interval_is_students(submission, n, confidence, seed, clustered):
    """mean -+ t * error with n - 1 or G - 1 degrees of freedom, any confidence; not clipped to 0 ... 1."""
    scores = drawn_scores("right or wrong", n, seed)
    mean = math.fsum(scores) / n
    clusters, repetitions, error = None, n, statistics.stdev(scores) / math.sqrt(n)
    if clustered:
        repetitions = max(2, n // 3)
        clusters = [i % repetitions for i in range(n)]
        sums = [sum(score - mean for score in scores[g::repetitions]) for g in range(repetitions)]
        error = math.sqrt(repetitions / (repetitions - 1) * math.fsum(total**2 for total in sums)) / n
    half = float(stats.t.ppf(0.5 + confidence / 2, repetitions - 1)) * error
    close(submission.mean_interval(scores, clusters, confidence), (mean - half, mean + half), rtol=0.0, atol=1e-9)


@points(2)
def test_pass_example(submission):
    """Five questions, eight answers each, pass@2: the mean and both of its error bars."""
    counts = [(8, 0), (8, 1), (8, 4), (8, 7), (8, 8)]
    expected = {"mean": 0.6071428571, "se_questions": 0.2045403009, "se_answers": 0.0613620903}
    close(submission.benchmark_pass_at_k(counts, 2), expected, rtol=1e-8)
    # Another number of answers for each question.
    counts = [(4, 1), (6, 3), (10, 10)]
    values = [1 - share_without_success(n, c, 2) for n, c in counts]
    noise = [share_without_success(n, c, 2) ** 2 - share_without_success(n, c, 4) for n, c in counts]
    expected = {
        "mean": float(sum(values) / 3),
        "se_questions": statistics.stdev(map(float, values)) / math.sqrt(3),
        "se_answers": math.sqrt(sum(noise)) / 3,
    }
    close(submission.benchmark_pass_at_k(counts, 2), expected, rtol=1e-9)


@points(2)
def test_pass_at_k_is_exact(submission):
    """All n <= 12, c and k: equal to 1 - C(n - c, k) / C(n, k) in fractions, and to the share of subsets."""
    calls = [(n, c, k) for n in range(1, 13) for k in range(1, n + 1) for c in range(n + 1)]
    results = submission.many("pass_at_k", [(call, {}) for call in calls])
    for (n, c, k), got in zip(calls, results, strict=True):
        close_within(got, 1 - share_without_success(n, c, k), 1e-12, f"pass_at_k({n}, {c}, {k})")


@points(2)
def test_variance_is_unbiased(submission):
    """Averaged over c ~ Bin(n, p), the estimated variance is the variance of the estimate, 0.0715400 and 0.0173177."""
    for n, k, p, known in ((6, 2, 0.3, 0.07154), (10, 3, 0.5, 0.0173177), (4, 2, 0.8, None), (2, 1, 0.1, None)):
        chance = stats.binom.pmf(np.arange(n + 1), n, p)
        values = np.array([float(1 - share_without_success(n, c, k)) for c in range(n + 1)])
        variance = chance @ values**2 - (chance @ values) ** 2
        if known is not None:
            close_within(variance, known, 1e-7, "the test itself")
        estimates = submission.many("pass_at_k_variance", [((n, c, k), {}) for c in range(n + 1)])
        average = math.fsum(float(q) * float(v) for q, v in zip(chance, estimates, strict=True))
        require(
            abs(average - variance) <= 1e-12,
            f"n = {n}, k = {k}, p = {p}: the estimate's expectation over c is not the variance of pass_at_k",
            got=average,
            expected=float(variance),
        )


def test_variance_properties(submission):
    """Never negative; 0 if all answers are wrong or all right; p (1 - p) / (n - 1) for k = 1; the exact fractions."""
    calls = [(n, c, k) for n in range(2, 21) for k in range(1, n // 2 + 1) for c in range(n + 1)]
    results = submission.many("pass_at_k_variance", [(call, {}) for call in calls])
    for (n, c, k), got in zip(calls, results, strict=True):
        what = f"pass_at_k_variance({n}, {c}, {k})"
        exact = share_without_success(n, c, k) ** 2 - share_without_success(n, c, 2 * k)
        close_within(got, exact, 1e-12, what)
        require(got >= -1e-15, f"{what} is negative", got=got)
        if k == 1:
            close_within(got, c / n * (1 - c / n) / (n - 1), 1e-12, what)


@points(2)
def test_large_counts(submission):
    """n = 10**5: relative error of pass_at_k up to 1e-9, absolute error of the variance up to 1e-12."""
    for n, c, k in ((10**5, 10, 1000), (10**5, 1, 1), (10**5, 10**5 - 3, 2), (10**5, 400, 30), (10**5, 3, 40_000)):
        close(submission.pass_at_k(n, c, k), float(1 - share_without_success(n, c, k)), rtol=1e-9)
        exact = share_without_success(n, c, k) ** 2 - share_without_success(n, c, 2 * k)
        close_within(submission.pass_at_k_variance(n, c, k), exact, 1e-12)


@points(2)
def test_questions_contain_answers(submission, rng):
    """300 simulated benchmarks: se_questions is the spread over new questions, se_answers that over new answers."""
    chances, n, k, questions = (0.2, 0.5, 0.8), 6, 2, 40
    values = np.array([float(1 - share_without_success(n, c, k)) for c in range(n + 1)])
    given_p = np.array([stats.binom.pmf(np.arange(n + 1), n, p) for p in chances])
    means = given_p @ values
    noise = given_p @ values**2 - means**2
    drawn = rng.integers(0, 3, size=(300, questions))
    counts = rng.binomial(n, np.array(chances)[drawn])
    calls = [(([(n, int(c)) for c in row], k), {}) for row in counts]
    results = submission.many("benchmark_pass_at_k", calls)
    # Relative spread of the two averages: below 1 percent, so 8 percent is out of reach for chance.
    rms = {key: math.sqrt(np.mean([result[key] ** 2 for result in results])) for key in ("se_questions", "se_answers")}
    both = math.sqrt((means.var() + noise.mean()) / questions)
    close(rms["se_questions"], both, rtol=0.08, what="root mean square of se_questions, 300 benchmarks")
    only = math.sqrt(noise.mean() / questions)
    close(rms["se_answers"], only, rtol=0.08, what="root mean square of se_answers, 300 benchmarks")


def test_bad_input(submission):
    """ValueError: one score, one cluster, unequal lengths, equal scores for the design effect, impossible counts."""
    with raises(ValueError):
        submission.standard_error([0.5])
    with raises(ValueError):
        submission.standard_error([])
    with raises(ValueError):
        submission.mean_interval([0.5])
    for function in (submission.clustered_standard_error, submission.design_effect, submission.mean_interval):
        with raises(ValueError):
            function([1, 0, 1], ["a", "a", "a"])
        with raises(ValueError):
            function([1, 0, 1], ["a", "b"])
        with raises(ValueError):
            function([1, 0], ["a", "b", "c"])
    with raises(ValueError):
        submission.design_effect([1, 1, 1, 1], ["a", "a", "b", "b"])
    for n, c, k in ((3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1)):
        with raises(ValueError):
            submission.pass_at_k(n, c, k)
    for n, c, k in ((5, 2, 3), (3, 1, 0), (3, 4, 1), (3, -1, 1)):
        with raises(ValueError):
            submission.pass_at_k_variance(n, c, k)
    with raises(ValueError):
        submission.benchmark_pass_at_k([(8, 3)], 2)
    with raises(ValueError):
        submission.benchmark_pass_at_k([(8, 3), (3, 2)], 2)
