"""Hidden tests: the economics of speculation. Oracles: closed forms, brute force over all choices, simulation."""

import math

import numpy as np

from grader.testing import close, counting, equal, floats, given, integers, lists, points, raises, require


def tokens(alpha, k):
    """1 + alpha + ... + alpha^k."""
    return math.fsum(alpha**i for i in range(k + 1))


def gain(alpha, k, c):
    return tokens(alpha, k) / (1 + k * c)


@points(3)
def test_worked_example(submission):
    """expected_tokens(0.8, 4) = 3.3616, its speedup at c = 0.05 2.801333; alpha = 1 gives k + 1, alpha = 0 gives 1."""
    close(submission.expected_tokens(0.8, 4), 3.3616, 1e-9)
    close(submission.speedup(0.8, 4, 0.05), 3.3616 / 1.2, 1e-9)
    close(submission.expected_tokens(1, 4), 5.0, 1e-12)
    close(submission.expected_tokens(0, 4), 1.0, 1e-12)
    close(submission.expected_tokens(0.8, 0), 1.0, 1e-12)
    close(submission.speedup(0.8, 0, 0.5), 1.0, 1e-12)


@points(2)
def test_worked_best_k(submission):
    """(0.8, 0.05) -> 8, 3.092080; (0.6, 0.05) -> 4, 1.921333; (0.9, 0.02) -> 19, 6.365387; (0.3, 0.4) -> 0, 1.0."""
    for alpha, c, k, value in (
        (0.8, 0.05, 8, 3.0920795),
        (0.6, 0.05, 4, 1.9213333),
        (0.9, 0.02, 19, 6.3653866),
        (0.3, 0.4, 0, 1.0),
    ):
        close(submission.best_k(alpha, c), (k, value), 1e-6, what=f"best_k({alpha}, {c})")
    close(submission.best_k(0.9, 0.02, 5), (5, gain(0.9, 5, 0.02)), 1e-9, what="best_k(0.9, 0.02, k_max=5)")
    equal(submission.best_k(0.9, 0.02, 0), (0, 1.0), "best_k with k_max = 0")


@points(2)
def test_pays_iff_alpha_exceeds_c(submission):
    """On a grid of alpha and c, drafting pays exactly where alpha > c; k is the best one, the smallest of a tie."""
    grid = [(i / 20, j / 20) for i in range(21) for j in range(0, 25, 2)]
    found = submission.many("best_k", [((alpha, c, 12), {}) for alpha, c in grid])
    for (alpha, c), (k, value) in zip(grid, found, strict=True):
        require((k > 0) == (alpha > c), f"alpha = {alpha}, c = {c}: k = 0 exactly if alpha <= c", got=k)
        gains = [gain(alpha, i, c) for i in range(13)]
        best = max(gains)
        close(value, best, 1e-9, what=f"speedup at alpha = {alpha}, c = {c}")
        if c > 0 or alpha >= 0.2:  # elsewhere longer drafts gain about 1e-12: which of them is best is rounding
            equal(k, next(i for i in range(13) if gains[i] > best - 1e-11), f"k at alpha = {alpha}, c = {c}")


def test_simulation_agrees(submission, rng):
    """expected_tokens within 5 standard errors of 200,000 simulated steps (false alarm 6e-7)."""
    for alpha, k in ((0.7, 5), (0.35, 2), (0.9, 9)):
        accepted = np.cumprod(rng.random((200_000, k)) < alpha, axis=1).sum(1) + 1
        error = float(accepted.std() / math.sqrt(len(accepted)))
        got = submission.expected_tokens(alpha, k)
        close(got, float(accepted.mean()), atol=5 * error, rtol=1e-12, what=f"alpha = {alpha}, k = {k}")


@points(3)
def test_censored_mle(submission, rng):
    """[4, 2, 0, 4, 1, 3] with k = 4 -> 14/18; 20,000 steps at alpha 0.7 within 0.02; nan without evidence."""
    close(submission.estimate_alpha([4, 2, 0, 4, 1, 3], 4), 14 / 18, 1e-12)
    for alpha, k in ((0.7, 4), (0.4, 2), (0.95, 7)):
        log = np.cumprod(rng.random((20_000, k)) < alpha, axis=1).sum(1).tolist()
        # The standard error is below 0.0033.
        close(submission.estimate_alpha(log, k), alpha, atol=0.02, what=f"k = {k}, {len(log)} steps at alpha = {alpha}")
        failures = sum(n < k for n in log)
        close(submission.estimate_alpha(log, k), sum(log) / (sum(log) + failures), 1e-12)
    close(submission.estimate_alpha([3, 3], 3), 1.0, 1e-12, what="nothing rejected")
    close(submission.estimate_alpha((0, 0, 0), 3), 0.0, 1e-12, what="everything rejected")
    for accepted, k in (([], 4), ([0, 0], 0)):
        require(math.isnan(submission.estimate_alpha(accepted, k)), f"estimate_alpha({accepted}, {k}) is not nan")


@given(alpha=floats(0.0, 1.0), k=integers(0, 40), alphas=lists(floats(0.0, 1.0), max_size=6))
def test_positions_generalise(submission, alpha, k, alphas):
    """Equal alphas reproduce expected_tokens; [0.9, 0.5, 0.0, 1.0] gives 2.35; none gives 1."""
    close(submission.expected_tokens_by_position([alpha] * k), tokens(alpha, k), 1e-9)
    close(submission.expected_tokens(alpha, k), tokens(alpha, k), 1e-9)
    close(submission.expected_tokens_by_position([0.9, 0.5, 0.0, 1.0]), 2.35, 1e-9)
    expected = math.fsum(math.prod(alphas[:i]) for i in range(len(alphas) + 1))
    close(submission.expected_tokens_by_position(tuple(alphas)), expected, 1e-9)


@points(3)
def test_large_batches_stop_paying(submission):
    """step_time(n) = max(1, n / 295), alpha 0.8, c 0.05: the best k is 8, 8, 4, 2, 1, 0 for batches 1 ... 512."""
    for batch, best in ((1, 8), (32, 8), (64, 4), (128, 2), (256, 1), (512, 0)):
        found = [submission.batched_speedup(0.8, k, 0.05, batch, lambda n: max(1.0, n / 295)) for k in range(17)]
        equal(found.index(max(found)), best, f"best k at batch {batch}")
        expected = [
            tokens(0.8, k) * max(1, batch / 295) / (k * 0.05 * max(1, batch / 295) + max(1, batch * (k + 1) / 295))
            for k in range(17)
        ]
        close(found, expected, 1e-9)
    step_time = counting(lambda n: 2.0 + n**2 / 100)
    got = submission.batched_speedup(0.5, 3, 0.2, 7, step_time)
    close(got, 1.875 * 2.49 / (0.6 * 2.49 + 2.0 + 28**2 / 100), 1e-9, what="another alpha, c and step_time")


@points(3)
def test_two_levels_multiply(submission):
    """(0.6, 0.1, 0.8, 0.05), budget 16 -> (2, 4, 4.575511); without a usable step draft -> (0, 8, 3.092080)."""
    close(submission.best_two_level(0.6, 0.1, 0.8, 0.05, 16), (2, 4, 4.5755111), 1e-6)
    close(submission.best_two_level(0.0, 0.1, 0.8, 0.05, 16), (0, 8, 3.0920795), 1e-6)
    equal(submission.best_two_level(0.6, 0.1, 0.8, 0.05, 1), (0, 0, 1.0), "budget 1")
    # Equal levels: (1, 2) and (2, 1) tie, and the smaller k_step wins.
    close(submission.best_two_level(0.9, 0.1, 0.9, 0.1, 6), (1, 2, gain(0.9, 1, 0.1) * gain(0.9, 2, 0.1)), 1e-9)
    for case in ((0.9, 0.02, 0.5, 0.1, 40), (0.3, 0.4, 0.2, 0.3, 9), (0.7, 0.2, 0.95, 0.01, 24)):
        *rates, budget = case
        pairs = [(s, t) for s in range(budget) for t in range(budget) if (s + 1) * (t + 1) <= budget]
        value = {(s, t): gain(rates[0], s, rates[1]) * gain(rates[2], t, rates[3]) for s, t in pairs}
        best = max(value.values())
        first = next(pair for pair in pairs if value[pair] > best - 1e-11)
        close(submission.best_two_level(*case), (*first, value[first]), 1e-9, what=f"best_two_level{case}")


@points(2)
def test_near_one_is_stable(submission):
    """Right within 1e-9 however near 1 alpha is: 1 - 1e-12 gives 11 for k = 10; k = 1000 works."""
    near = [(1 - 10.0**-digits, k) for digits in range(3, 17) for k in (1, 10, 1000)]
    for alpha, k in (*near, (1.0, 1000)):
        close(submission.expected_tokens(alpha, k), tokens(alpha, k), 1e-9, what=f"alpha = {alpha!r}, k = {k}")


def test_bad_input_raises(submission):
    """ValueError: alpha outside 0 ... 1, negative k, a count outside 0 ... k."""
    for alpha, k in ((-0.1, 3), (1.1, 3), (0.5, -1)):
        with raises(ValueError):
            submission.expected_tokens(alpha, k)
    for accepted, k in (([1, 5], 4), ([-1, 2], 4), ([1], 0)):
        with raises(ValueError):
            submission.estimate_alpha(accepted, k)
