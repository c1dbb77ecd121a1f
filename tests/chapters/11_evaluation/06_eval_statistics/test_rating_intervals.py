"""Hidden tests: arena ratings with intervals. Oracles: closed form for two models, an anchored refit in natural units,
the score equations, seeded tournaments and resamples."""

import math

import numpy as np
from scipy import optimize, stats

from grader.testing import close, equal, given, integers, needs, points, raises, require, sampled_from

POINT = 400 / math.log(10)
"""Rating points per natural unit."""


def record(wins, losses, draws=0, a="a", b="b"):
    return [(a, b, 1.0)] * wins + [(a, b, 0.0)] * losses + [(a, b, 0.5)] * draws


def tournament(dice, strengths, n, draws=0.2):
    """n battles of random pairs; `draws` is the share of draws. strengths in natural units.

    The model holds for the expected score, draws included (as long as no pair is too uneven for so many draws).
    """
    m = len(strengths)
    i = dice.integers(0, m, n)
    j = (i + dice.integers(1, m, n)) % m
    strength = np.array(strengths)
    chance = 1 / (1 + np.exp(strength[j] - strength[i]))
    wins = dice.random(n) < np.clip((chance - 0.5 * draws) / (1 - draws), 0, 1)
    scores = np.where(dice.random(n) < draws, 0.5, wins)
    return [(f"m{a}", f"m{b}", s) for a, b, s in zip(i.tolist(), j.tolist(), scores.tolist(), strict=True)]


def anchored_fit(battles):
    """(names, theta, sandwich, inverse information) with the first model fixed at 0, in natural units."""
    names = sorted({name for a, b, _ in battles for name in (a, b)})
    m = len(names)
    # One row per battle: +1 at model a, -1 at model b.
    u = np.zeros((len(battles), m))
    for row, (a, b, _) in enumerate(battles):
        u[row, names.index(a)], u[row, names.index(b)] = 1.0, -1.0
    s = np.array([score for _, _, score in battles])
    u = u[:, 1:]

    def loss(theta):
        x = u @ theta
        return float(np.sum(np.logaddexp(0, x) - s * x))

    def gradient(theta):
        return u.T @ (1 / (1 + np.exp(-u @ theta)) - s)

    theta = optimize.minimize(loss, np.zeros(m - 1), jac=gradient, method="BFGS", options={"gtol": 1e-10}).x
    for _ in range(5):  # a few Newton steps make it exact
        p = 1 / (1 + np.exp(-u @ theta))
        theta = theta - np.linalg.solve((u * (p * (1 - p))[:, None]).T @ u, gradient(theta))
    p = 1 / (1 + np.exp(-u @ theta))
    inverse = np.linalg.inv((u * (p * (1 - p))[:, None]).T @ u)
    scores = u * (s - p)[:, None]

    def whole(v):
        return np.pad(v, ((1, 0), (1, 0)))

    return names, np.concatenate([[0.0], theta]), whole(inverse @ (scores.T @ scores) @ inverse), whole(inverse)


def error_of_difference(v, i, j):
    return math.sqrt(v[i, i] + v[j, j] - 2 * v[i, j])


def centred(v):
    """The same covariance of differences, for ratings whose average is fixed."""
    m = len(v)
    to_mean = np.eye(m) - 1 / m
    return to_mean @ v @ to_mean


def close_within(got, expected, atol, what=""):
    close(got, expected, rtol=0.0, atol=atol, what=what)


@points(2)
def test_two_models(submission):
    """60 : 40 in closed form: 70.4365036 apart, standard error 400 / ln 10 / sqrt(100 * 0.24), robust or not."""
    gap, error = 400 * math.log10(1.5), POINT / math.sqrt(24)
    for robust in (True, False):
        fitted = submission.fit_ratings(record(60, 40), robust=robust)
        equal(fitted.names, ("a", "b"), "names")
        close_within(fitted.rating, np.array([1000 + gap / 2, 1000 - gap / 2]), 1e-6, "rating")
        quarter = error**2 / 4
        close(fitted.covariance, np.array([[quarter, -quarter], [-quarter, quarter]]), rtol=1e-6, what="covariance")
        z = float(stats.norm.ppf(0.975))
        got = submission.difference(fitted, "a", "b")
        close(got, (gap, error, gap - z * error, gap + z * error), rtol=1e-6, atol=1e-6)
        got = submission.difference(fitted, "b", "a", 0.8)
        z = float(stats.norm.ppf(0.9))
        close(got, (-gap, error, -gap - z * error, -gap + z * error), rtol=1e-6, atol=1e-6)
        close_within(submission.difference(fitted, "b", "b"), (0.0, 0.0, 0.0, 0.0), 1e-9)


@points(3)
def test_draws_need_the_sandwich(submission):
    """40 wins, 20 losses, 40 draws: the same ratings as 60 : 40; standard error 35.46 by information, 27.08 robust."""
    battles = record(40, 20, 40)
    gap = 400 * math.log10(1.5)
    for robust, expected in ((True, POINT * math.sqrt(0.14 / 100) / 0.24), (False, POINT / math.sqrt(24))):
        fitted = submission.fit_ratings(battles, robust=robust)
        got = submission.difference(fitted, "a", "b")
        close(got[0], gap, rtol=1e-7, what="difference")
        close(got[1], expected, rtol=1e-6, what=f"standard error, robust={robust}")
    default = submission.difference(submission.fit_ratings(battles), "a", "b")
    close(default[1], 27.0830193, rtol=1e-6, what="standard error by default")


@points(3)
@given(m=integers(2, 6), n=integers(40, 130), draws=sampled_from((0.2, 0.0, 0.5)), seed=integers(0, 9999))
def test_matches_anchored_fit(submission, m, n, draws, seed):
    """Random tournaments: ratings and covariance equal those of a fit that fixes one model, brought to average 1000."""
    dice = np.random.default_rng(seed)
    battles = tournament(dice, dice.normal(0, 0.5, m).tolist(), n, draws)
    # A circle of wins makes the graph strongly connected, whatever was drawn.
    battles += [(f"m{i}", f"m{(i + 1) % m}", 1.0) for i in range(m)]
    if m == 2:
        battles += record(1, 1, a="m0", b="m1")
    names, theta, sandwich, inverse = anchored_fit(battles)
    fitted = submission.fit_ratings(battles)
    equal(fitted.names, tuple(names), "names")
    close_within(fitted.rating, 1000 + POINT * (theta - theta.mean()), 1e-5, "rating")
    close(fitted.covariance, POINT**2 * centred(sandwich), rtol=1e-6, by="tensor", what="covariance")
    plain = submission.fit_ratings(battles, robust=False)
    close(plain.covariance, POINT**2 * centred(inverse), rtol=1e-6, by="tensor", what="covariance, robust=False")


@needs("two_models")
@points(2)
def test_differences_are_gauge_free(submission):
    """Standard errors of differences do not depend on what is held fixed; rows of the covariance sum to 0."""
    battles = tournament(np.random.default_rng(4), [-0.5, 0.0, 0.2, 0.6, 0.1], 400)
    names, _, sandwich, _ = anchored_fit(battles)
    fitted = submission.fit_ratings(battles)
    close_within(fitted.covariance.sum(axis=1), np.zeros(5), 1e-6 * float(fitted.covariance.max()), "row sums")
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j:
                expected = POINT * error_of_difference(sandwich, i, j)
                close(submission.difference(fitted, a, b)[1], expected, rtol=1e-6, what=f"standard error of {a} - {b}")


def test_scale(submission):
    """scale=1: ratings and errors are 400 times smaller; the average stays 1000."""
    battles = record(12, 5, 3) + record(7, 9, 1, "b", "c") + record(4, 6, 2, "c", "a")
    large, small = submission.fit_ratings(battles), submission.fit_ratings(battles, scale=1.0)
    close_within(small.rating, 1000 + (large.rating - 1000) / 400, 1e-8, "rating")
    close(small.covariance, large.covariance / 400**2, rtol=1e-6, by="tensor", what="covariance")


@points(2)
def test_expected_scores_are_actual_scores(submission):
    """The score equations: every model's expected score equals its actual one, also in very uneven tournaments."""
    for battles in (
        record(300, 1) + record(200, 1, 0, "b", "c") + record(1, 100, 0, "d", "c"),
        [("a", "b", 0.9), ("b", "c", 0.75), ("c", "a", 0.2), ("a", "c", 0.6)],
        tournament(np.random.default_rng(0), [-2.0, 0.0, 2.0], 300),
    ):
        fitted = submission.fit_ratings(battles)
        rating = dict(zip(fitted.names, fitted.rating.tolist(), strict=True))
        surplus = dict.fromkeys(fitted.names, 0.0)
        for a, b, score in battles:
            expected = 1 / (1 + 10 ** ((rating[b] - rating[a]) / 400))
            surplus[a] += score - expected
            surplus[b] -= score - expected
        worst = max(surplus, key=lambda name: abs(surplus[name]))
        require(
            abs(surplus[worst]) <= 1e-6,
            f"{len(battles)} battles: actual minus expected score of {worst}",
            got=surplus[worst],
            expected=0.0,
        )
        close_within(float(fitted.rating.mean()), 1000.0, 1e-6, "average rating")


def test_covariance_is_used(submission):
    """Four models, 1200 battles: the error of a difference is more than a tenth above sqrt(V_aa + V_bb)."""
    battles = tournament(np.random.default_rng(1), [-0.6, -0.2, 0.2, 0.6], 1200)
    fitted = submission.fit_ratings(battles)
    for i, j in ((0, 1), (0, 3), (2, 1)):
        own = math.sqrt(fitted.covariance[i, i] + fitted.covariance[j, j])
        got = submission.difference(fitted, f"m{i}", f"m{j}")[1]
        require(got > 1.1 * own, f"error of m{i} - m{j} / sqrt(V_aa + V_bb)", got=got / own, expected="about 1.15")


@points(2)
def test_matches_bootstrap(submission):
    """The same battles, 200 resamples: their spread is that of the covariance, within 20 percent."""
    battles = tournament(np.random.default_rng(1), [-0.6, -0.2, 0.2, 0.6], 600)
    fitted = submission.fit_ratings(battles)
    ratings, skipped = submission.bootstrap_ratings(battles, np.random.default_rng(0), 200)
    equal(skipped, 0, "resamples skipped")
    require(ratings.shape == (200, 4), "shape of the ratings", got=ratings.shape, expected=(200, 4))
    own = np.sqrt(np.diag(fitted.covariance))
    close(ratings.std(axis=0, ddof=1), own, rtol=0.2, what="standard deviations of the resampled ratings")
    for i, j in ((0, 1), (0, 3), (2, 3)):
        spread = float((ratings[:, i] - ratings[:, j]).std(ddof=1))
        error = submission.difference(fitted, f"m{i}", f"m{j}")[1]
        close(spread, error, rtol=0.2, what=f"standard deviation of the resampled m{i} - m{j}")


@points(2)
def test_coverage(submission):
    """200 tournaments of 4 models, 300 battles: the 95 percent interval of a difference holds the truth in 90 to 99."""
    strengths = [-0.4, 0.0, 0.1, 0.5]
    dice = np.random.default_rng(11)
    tournaments = [tournament(dice, strengths, 300) for _ in range(200)]
    fits = submission.many("fit_ratings", [((battles,), {}) for battles in tournaments])
    intervals = submission.many("difference", [((fitted, "m3", "m0"), {}) for fitted in fits])
    truth = POINT * (strengths[3] - strengths[0])
    held = sum(low <= truth <= high for _, _, low, high in intervals)
    require(180 <= held <= 198, "intervals out of 200 that hold the true difference", got=held, expected="about 190")


@points(2)
def test_ranks(submission):
    """Clearly separated models have one rank each, equal ones share all; the better rated, the better the best rank."""
    strengths = {"d": 2.1, "a": 0.7, "c": -0.7, "b": -2.1}
    battles = []
    for a in strengths:
        for b in strengths:
            if a < b:
                wins = round(400 / (1 + math.exp(strengths[b] - strengths[a])))
                battles += record(wins, 400 - wins, 0, a, b)
    equal(submission.rank_ranges(submission.fit_ratings(battles)), [(2, 2), (4, 4), (3, 3), (1, 1)], "a, b, c, d")
    alike = record(10, 10) + record(10, 10, 0, "b", "c") + record(10, 10, 0, "a", "c")
    equal(submission.rank_ranges(submission.fit_ratings(alike)), [(1, 3)] * 3, "three equal models")
    dice = np.random.default_rng(2)
    for m in (2, 5, 8):
        rating = 1000 + dice.normal(0, 60, m)
        equal_errors = submission.Ratings(
            names=tuple(f"m{i}" for i in range(m)), rating=rating, covariance=400.0 * (np.eye(m) - 1 / m)
        )
        got = submission.rank_ranges(equal_errors)
        separated = 2 * stats.norm.sf(np.abs(rating[:, None] - rating) / math.sqrt(800)) * m * (m - 1) / 2 <= 0.05
        above, below = rating > rating[:, None], rating < rating[:, None]
        expected = [
            (1 + int((separated[i] & above[i]).sum()), m - int((separated[i] & below[i]).sum())) for i in range(m)
        ]
        equal(got, expected, f"rank ranges for ratings {rating.round(1).tolist()}, all errors of differences 28.3")
        best = [got[i][0] for i in np.argsort(-rating)]
        require(best == sorted(best), "best ranks from the highest rating down", got=best)


@points(2)
def test_bonferroni(submission):
    """Six models, a pair with p = 0.02: separated if it were the only one, not among 15 pairs."""
    z = float(stats.norm.ppf(0.99))
    names, covariance = tuple("abcdef"), 50.0 * (np.eye(6) - 1 / 6)
    rating = np.array([1000 + z * 5, 1000 - z * 5, 1000, 1000, 1000, 1000])
    six = submission.Ratings(names=names, rating=rating, covariance=covariance)
    equal(submission.rank_ranges(six), [(1, 6)] * 6, "alpha = 0.05")
    equal(submission.rank_ranges(six, 0.31), [(1, 5), (2, 6), *[(1, 6)] * 4], "alpha = 0.31, above 15 * 0.02")
    two = submission.Ratings(names=("a", "b"), rating=rating[:2], covariance=np.array([[25.0, -25.0], [-25.0, 25.0]]))
    # Two ratings that move against each other: standard error 10 and p = 0.02, not sqrt(25 + 25).
    equal(submission.rank_ranges(two), [(1, 1), (2, 2)], "the pair alone, alpha = 0.05")
    equal(submission.rank_ranges(two, 0.019), [(1, 2), (1, 2)], "the pair alone, alpha = 0.019")


def test_aggregation(submission):
    """Order and sides of the battles do not matter; doubling all of them halves the covariance."""
    dice = np.random.default_rng(6)
    battles = tournament(dice, [-0.5, 0.0, 0.7], 150)
    fitted = submission.fit_ratings(battles)
    changed = [battles[i] for i in dice.permutation(len(battles)).tolist()]
    changed = [(b, a, 1 - s) if i % 2 else (a, b, s) for i, (a, b, s) in enumerate(changed)]
    for other, factor, what in ((changed, 1, "shuffled, sides exchanged"), (battles * 2, 2, "each battle twice")):
        got = submission.fit_ratings(other)
        close_within(got.rating, fitted.rating, 1e-5, f"rating, {what}")
        close(got.covariance, fitted.covariance / factor, rtol=1e-6, by="tensor", what=f"covariance, {what}")


@points(3)
def test_skipped_resamples(submission):
    """A model with two battles: resamples that lack it, or leave it unbeaten, are skipped; the seed gives the draws."""
    battles = tournament(np.random.default_rng(3), [-0.3, 0.0, 0.4], 60)
    battles += [("rare", "m0", 1.0), ("m1", "rare", 1.0)]
    ratings, skipped = submission.bootstrap_ratings(battles, np.random.default_rng(5), 40)
    rng, expected = np.random.default_rng(5), []
    for _ in range(40):
        drawn = [battles[i] for i in rng.integers(0, len(battles), len(battles)).tolist()]
        won = any(a == "rare" for a, _, _ in drawn)
        lost = any(b == "rare" for _, b, _ in drawn)
        if won and lost:
            theta = anchored_fit(drawn)[1]
            expected.append(1000 + POINT * (theta - theta.mean()))
    equal(skipped, 40 - len(expected), "resamples skipped")
    close_within(ratings, np.array(expected), 1e-4, "ratings")
    require(0 < skipped < 40, "the test itself expects some resamples to be skipped", got=skipped)


@points(2)
def test_bad_input(submission):
    """ValueError: no battles, self-play, a score outside [0, 1], an unbeaten model, groups that never met."""
    for battles in (
        [],
        [("a", "a", 0.5)],
        [*record(2, 2), ("b", "b", 1.0)],
        [*record(2, 2), ("a", "b", 1.5)],
        [*record(2, 2), ("a", "b", -0.5)],
        record(5, 0),
        record(2, 2) + record(3, 0, 0, "c", "a"),
        record(2, 2) + record(2, 2, 0, "c", "d"),
        record(2, 2) + record(2, 2, 0, "c", "d") + record(3, 0, 0, "a", "c"),
    ):
        with raises(ValueError):
            submission.fit_ratings(battles)
    # A single draw between the two groups is enough.
    fitted = submission.fit_ratings(record(2, 2) + record(2, 2, 0, "c", "d") + record(0, 0, 1, "a", "c"))
    close_within(fitted.rating, np.full(4, 1000.0), 1e-6, "four equal models")
