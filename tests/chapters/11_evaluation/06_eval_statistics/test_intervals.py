"""Hidden tests: intervals. Oracles: scipy.stats.binomtest and bootstrap, exact binomial sums, explicit resampling."""

import math

import numpy as np
from scipy import stats

from grader.testing import close, counting, given, integers, points, raises, require, sampled_from, warnings_are_errors

SAMPLE = np.array([1.2, 0.4, 3.1, 0.9, 2.2, 7.5, 0.3, 1.1, 0.8, 4.0])
SCORES = [1, 1, 1, 0, 0, 0, 1, 0, 1, 1]
PASSAGES = list("aaabbbccdd")


def mean(x):
    return x.mean(-1)


def median(x):
    return np.median(x, -1)


def variation(x):
    return x.std(-1) / x.mean(-1)


def different_values(x):
    """Minus the number of different values in a sample: resamples never have more of them than the sample."""
    return -1.0 - (np.diff(np.sort(x, -1), axis=-1) > 0).sum(-1)


STATISTICS = {"mean": mean, "median": median, "coefficient of variation": variation}


def wald(successes, n):
    p = successes / n
    half = float(stats.norm.ppf(0.975)) * math.sqrt(p * (1 - p) / n)
    return p - half, p + half


def scipy_bootstrap(x, statistic, seed, resamples, confidence, method):
    found = stats.bootstrap(
        (x,),
        lambda a, axis: statistic(a),
        vectorized=True,
        n_resamples=resamples,
        confidence_level=confidence,
        method={"bca": "BCa", "percentile": "percentile"}[method],
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def close_within(got, expected, atol, what=""):
    close(got, expected, rtol=0.0, atol=atol, what=what)


@points(2)
def test_binomial_example(submission):
    """8 of 10 and 10 of 10: Wilson and Clopper-Pearson, seven digits."""
    close_within(submission.wilson(8, 10), (0.4901625, 0.9433178), 1e-7)
    close_within(submission.clopper_pearson(8, 10), (0.4439045, 0.9747893), 1e-7)
    close_within(submission.wilson(10, 10), (0.7224672, 1.0), 1e-7)
    close_within(submission.clopper_pearson(10, 10), (0.6915029, 1.0), 1e-7)


@points(3)
def test_matches_libraries(submission):
    """All successes for n = 1, 2, 3, 7, 10, 17, 40, confidence 0.8, 0.95 and 0.99: SciPy's intervals within 1e-9."""
    for n in (1, 2, 3, 7, 10, 17, 40):
        levels = (0.95, 0.8, 0.99)
        cases = [(k, level) for k in range(n + 1) for level in (levels if n < 10 else levels[k % 3 :][:1])]
        calls = [((k, n, confidence), {}) for k, confidence in cases]
        for name, method in (("wilson", "wilson"), ("clopper_pearson", "exact")):
            results = submission.many(name, calls)
            for (k, confidence), got in zip(cases, results, strict=True):
                found = stats.binomtest(k, n).proportion_ci(confidence, method)
                close_within(got, (float(found.low), float(found.high)), 1e-9, f"{name}({k}, {n}, {confidence})")
    for n in (1, 10):
        low, high = submission.clopper_pearson(0, n)[0], submission.clopper_pearson(n, n)[1]
        require(low == 0.0, f"lower end for 0 of {n}", got=low, expected=0.0)
        require(high == 1.0, f"upper end for {n} of {n}", got=high, expected=1.0)


@given(n=integers(1, 40), p=sampled_from((0.5, 0.0, 1.0, 0.03, 0.9)), seed=integers(0, 9999))
def test_coverage_is_exact(submission, n, p, seed):
    """coverage of an interval given as a table: binomial probabilities of the outcomes whose interval holds p."""
    dice = np.random.default_rng(seed)
    ends = np.sort(dice.choice([0.0, 0.03, 0.4, 0.5, 0.9, 1.0], size=(n + 1, 2)), axis=1)
    seen = []

    def interval(successes, of):
        seen.append((successes, of))
        return float(ends[successes, 0]), float(ends[successes, 1])

    got = submission.coverage(interval, p, n)
    # Through logarithms rather than SciPy's binomial: 0 ** 0 is 1 for p = 0 and p = 1.
    expected = math.fsum(
        math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if ends[k, 0] <= p <= ends[k, 1]
    )
    close_within(got, expected, 1e-12)
    require(all(of == n for _, of in seen), "interval was called with another n", got=seen[:5])


@points(2)
def test_coverage_at_the_ceiling(submission):
    """p = 0.97, n = 50: the textbook interval covers 0.7812, Wilson 0.9372, Clopper-Pearson 0.9832."""
    close_within(submission.coverage(wald, 0.97, 50), 0.7812309, 1e-7, "textbook")
    close_within(submission.coverage(submission.wilson, 0.97, 50), 0.9372401, 1e-7, "Wilson")
    close_within(submission.coverage(submission.clopper_pearson, 0.97, 50), 0.9831894, 1e-7, "Clopper-Pearson")


def test_clopper_pearson_never_undercovers(submission):
    """n = 5, 10, 20 and 200 values of p: Clopper-Pearson covers at least 0.95; Wilson dips below it somewhere."""
    p = np.linspace(0.0025, 0.9975, 200)
    lowest = {}
    for name in ("clopper_pearson", "wilson"):
        for n in (5, 10, 20):
            ends = np.array(submission.many(name, [((k, n), {}) for k in range(n + 1)]))
            holds = (ends[:, :1] <= p) & (p <= ends[:, 1:])
            covered = (stats.binom.pmf(np.arange(n + 1)[:, None], n, p) * holds).sum(0)
            lowest[name, n] = float(covered.min())
            if name == "clopper_pearson":
                at = float(p[covered.argmin()])
                require(
                    covered.min() >= 0.95 - 1e-9, f"n = {n}, p = {at:.4f}: coverage", got=lowest[name, n], expected=0.95
                )
    worst = min(lowest["wilson", n] for n in (5, 10, 20))
    require(0.8 < worst < 0.95, "the lowest coverage of Wilson's interval", got=worst, expected="0.8 to 0.95")


@points(2)
def test_bootstrap_example(submission):
    """Ten skewed values, their mean, seed 0, 2000 resamples: percentile (1.07, 3.63), BCa (1.23, 4.0794269)."""
    rng = np.random.default_rng(0)
    close_within(submission.bootstrap(SAMPLE, mean, rng, method="percentile"), (1.07, 3.63), 1e-9)
    close_within(submission.bootstrap(SAMPLE, mean, np.random.default_rng(0)), (1.23, 4.079426931), 1e-8)


@points(4)
def test_bootstrap_equals_scipy(submission):
    """Mean, median, coefficient of variation of 20 samples, both methods: scipy.stats.bootstrap with the same seed."""
    for seed in range(20):
        dice = np.random.default_rng(seed)
        # Twenty values or more: then no resample is a permutation of the sample, whose rounding could break a tie.
        x = dice.exponential(size=int(dice.integers(20, 60))) + (3.0 if seed % 3 == 0 else 0.0)
        resamples, confidence = ((300, 0.95), (200, 0.8), (250, 0.99))[seed % 3]
        for name, statistic in STATISTICS.items():
            for method in ("percentile", "bca"):
                rng = np.random.default_rng(seed + 100)
                got = submission.bootstrap(x, statistic, rng, resamples=resamples, confidence=confidence, method=method)
                expected = scipy_bootstrap(x, statistic, seed + 100, resamples, confidence, method)
                close(got, expected, rtol=1e-9, what=f"{method} interval of the {name}")


def test_transformation_respecting(submission):
    """The percentile interval of exp(mean) is exp of that of the mean, where levels fall on resampled values."""
    x = np.random.default_rng(5).normal(size=30)
    options = {"resamples": 1001, "confidence": 0.9, "method": "percentile"}
    low, high = submission.bootstrap(x, mean, np.random.default_rng(1), **options)
    got = submission.bootstrap(x, lambda a: np.exp(a.mean(-1)), np.random.default_rng(1), **options)
    close(got, (math.exp(low), math.exp(high)), rtol=1e-12)
    resampled = np.sort(x[np.random.default_rng(1).integers(0, 30, (1001, 30))].mean(-1))
    close(low, float(resampled[50]), rtol=1e-12, what="lower end: the 51st of 1001 sorted values")


@points(2)
def test_ties_in_discrete_data(submission):
    """0/1 scores, where many resamples tie with the estimate: half of them count, as in SciPy; no warning."""
    for seed, ones in ((0, 7), (1, 5), (2, 9)):
        x = np.array([1] * ones + [0] * (10 - ones))
        with warnings_are_errors(submission):
            got = submission.bootstrap(x, mean, np.random.default_rng(seed), resamples=999)
        close(got, scipy_bootstrap(x, mean, seed, 999, 0.95, "bca"), rtol=1e-9, what=f"{ones} of 10 right")


@points(2)
def test_constant_data(submission):
    """All resampled values equal: both ends are that value, with either method, and no warning is raised."""
    for value, n in ((1.0, 10), (0.25, 2), (-3.0, 17)):
        for method in ("bca", "percentile"):
            with warnings_are_errors(submission):
                got = submission.bootstrap(
                    np.full(n, value), mean, np.random.default_rng(0), resamples=50, method=method
                )
            close(got, (value, value), rtol=1e-12)


def test_estimate_outside_all_resamples(submission):
    """No resampled value reaches the estimate: the share is kept within 1 / (2 resamples) of 0 and 1."""
    x, resamples = np.arange(25.0), 40
    indices = np.random.default_rng(3).integers(0, 25, (resamples, 25))
    # At 0.9999 the far end lies inside the resampled values: there it shows where the share was stopped.
    for sign, confidence in ((1.0, 0.5), (-1.0, 0.5), (1.0, 0.9999), (-1.0, 0.9999)):
        values = sign * different_values(x[indices])
        z0 = float(stats.norm.ppf(1 / (2 * resamples) if sign > 0 else 1 - 1 / (2 * resamples)))
        # All leave-one-out values are equal, so a = 0.
        levels = stats.norm.cdf(2 * z0 + stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2]))
        expected = tuple(float(q) for q in np.quantile(values, levels))
        with warnings_are_errors(submission):
            got = submission.bootstrap(
                x,
                lambda a, sign=sign: sign * different_values(a),
                np.random.default_rng(3),
                resamples=resamples,
                confidence=confidence,
            )
        close(got, expected, rtol=1e-9)


@points(2)
def test_cluster_example(submission):
    """Ten questions in four passages, seed 0, 2000 resamples: (0.1818182, 1.0)."""
    close_within(submission.cluster_bootstrap_mean(SCORES, PASSAGES, np.random.default_rng(0)), (2 / 11, 1.0), 1e-9)


@given(
    groups=integers(1, 9),
    extra=integers(0, 30),
    names=sampled_from(("numbers", "words")),
    confidence=sampled_from((0.95, 0.8)),
    seed=integers(0, 9999),
)
def test_clusters_of_any_size_and_order(submission, groups, extra, names, confidence, seed):
    """Unequal clusters whose members are scattered: whole clusters are drawn, in the order of their sorted labels."""
    dice = np.random.default_rng(seed)
    member = dice.permutation([*range(groups), *dice.integers(0, groups, extra)])
    scores = [round(float(s), 2) for s in dice.random(len(member))]
    labels = [int(g) if names == "numbers" else f"passage {chr(97 + g)}" for g in member]
    got = submission.cluster_bootstrap_mean(
        scores, labels, np.random.default_rng(seed + 1), resamples=60, confidence=confidence
    )
    drawn = np.random.default_rng(seed + 1).integers(0, groups, (60, groups))
    by_cluster = [[s for s, g in zip(scores, member, strict=True) if g == group] for group in range(groups)]
    means = []
    for row in drawn:
        resample = [score for group in row for score in by_cluster[group]]
        means.append(math.fsum(resample) / len(resample))
    expected = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    close_within(got, (float(expected[0]), float(expected[1])), 1e-12)


def test_cluster_wider_than_plain(submission):
    """20 clusters of ten equal scores: at least 2.5 times as wide as the bootstrap of the 200 scores."""
    dice = np.random.default_rng(8)
    scores = np.repeat(np.round(dice.random(20), 2), 10)
    labels = [g for g in range(20) for _ in range(10)]
    low, high = submission.cluster_bootstrap_mean(scores.tolist(), labels, np.random.default_rng(1))
    plain_low, plain_high = submission.bootstrap(scores, mean, np.random.default_rng(1), method="percentile")
    ratio = (high - low) / (plain_high - plain_low)
    require(
        ratio >= 2.5, "width of the clustered interval / width of the plain one", got=ratio, expected="about sqrt(10)"
    )


def test_bad_input(submission):
    """ValueError: impossible counts, an unknown method, labels that do not match the scores."""
    for function in (submission.wilson, submission.clopper_pearson):
        for successes, n in ((3, 2), (-1, 2), (0, 0)):
            with raises(ValueError):
                function(successes, n)
    with raises(ValueError):
        submission.bootstrap(SAMPLE, mean, np.random.default_rng(0), method="basic")
    with raises(ValueError):
        submission.cluster_bootstrap_mean([1, 0, 1], ["a", "b"], np.random.default_rng(0))
    with raises(ValueError):
        submission.cluster_bootstrap_mean([1, 0], ["a", "b", "c"], np.random.default_rng(0))


@points(2)
def test_cost_statistic_is_called_at_most_three_times(submission):
    """The statistic is called on the sample, on all resamples and on all leave-one-out samples: three calls at most."""
    for method in ("bca", "percentile"):
        statistic = counting(mean)
        submission.bootstrap(SAMPLE, statistic, np.random.default_rng(0), method=method)
        require(
            statistic.calls <= 3,
            f"method {method!r}: calls of the statistic",
            got=statistic.calls,
            expected="at most 3",
        )
