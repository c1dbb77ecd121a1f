"""Hidden tests: the acceptance rule. Oracle: exact integration over the uniforms, cut at the rule's own breakpoints."""

import itertools

import numpy as np

from grader.testing import close, equal, frequencies_match, given, integers, points, raises, require, sampled_from

P = np.array([4.0, 3.0, 1.0, 0.0]) / 8
Q = np.array([1.0, 2.0, 2.0, 3.0]) / 8


def midpoints(n):
    return [(i + 0.5) / n for i in range(n)]


def excess(p, q):
    """max(p - q, 0), normalised."""
    r = np.maximum(p - q, 0.0)
    return r / r.sum()


def pieces(*breakpoints):
    """The intervals between breakpoints in [0, 1): (midpoint, length)."""
    ends = sorted({0.0, 1.0, *(float(b) for b in breakpoints if 0 < b < 1)})
    # Rounding makes two of one breakpoint; what is narrower than 1e-13 holds no probability worth a call.
    return [((a + b) / 2, b - a) for a, b in itertools.pairwise(ends) if b - a > 1e-13]


def simplex(rng, size, zeros):
    """A random distribution, some of its entries 0."""
    row = rng.dirichlet(np.full(size, 0.7))
    if zeros and size > 1:
        row[rng.permutation(size)[: int(rng.integers(0, size))]] = 0.0
        row = row + (row.sum() == 0) * np.eye(size)[int(rng.integers(size))]
    return row / row.sum()


class Sampler:
    """Lives beside the submission: draws drafts and uniforms, and counts what comes out."""

    def count(self, verify, p, q, seed, n):
        import numpy as np

        rng = np.random.default_rng(seed)
        drafts = rng.choice(len(q), size=n, p=q).tolist()
        uniforms = rng.random((n, 2)).tolist()
        p, q = np.stack([p, p]), q[None]
        counts = [0] * p.shape[1]
        for x, (u, v) in zip(drafts, uniforms, strict=True):
            accepted, token = verify(p, q, [x], [u], v)
            counts[x if accepted else token] += 1
        return counts


@points(3)
def test_worked_example(submission):
    """p = [4, 3, 1, 0] / 8, q = [1, 2, 2, 3] / 8: acceptance 0.5, residual [0.75, 0.25, 0, 0], and both outcomes."""
    close(submission.acceptance_rate(P, Q), 0.5, 1e-12)
    close(submission.residual(P, Q), np.array([0.75, 0.25, 0.0, 0.0]), 1e-12, dtype=np.float64)
    rows = np.stack([P, P])
    equal(submission.verify(rows, Q[None], [2], [0.49], 0.6), (1, 1), "u_accept 0.49")
    equal(submission.verify(rows, Q[None], [2], [0.5], 0.74), (0, 0), "u_accept 0.5, u_next 0.74")
    equal(submission.verify(rows, Q[None], [2], [0.5], 0.76), (0, 1), "u_accept 0.5, u_next 0.76")


def test_inverse_cdf(submission):
    """Smallest i with c[i] > u * c[-1], any scale, never an index of weight 0, ValueError if nothing can be drawn."""
    weights = np.array([0.0, 1.0, 0.0, 2.0, 1.0, 0.0])
    for u, index in ((0.0, 1), (0.24, 1), (0.25, 3), (0.74, 3), (0.75, 4), (1 - 2**-53, 4)):
        for scale in (1.0, 0.125, 4.0):
            equal(submission.inverse_cdf(weights * scale, u), index, f"u = {u}, weights * {scale}")
    equal(submission.inverse_cdf(weights.astype(np.float32), 0.5), 3, "float32")
    equal(submission.inverse_cdf(np.array([0.0, 5e-324, 0.0]), 0.9), 1, "rounding leaves none: the last positive one")
    # 1000 weights of 0.1 in float32: the cumulative sum must not be taken in float32.
    many = np.full(1000, 0.1, dtype=np.float32)
    equal(submission.inverse_cdf(many, 0.9995), 999, "1000 float32 weights of 0.1, u = 0.9995")
    equal(submission.inverse_cdf(many, 0.4995), 499, "1000 float32 weights of 0.1, u = 0.4995")
    for bad in ([0.0, 0.0], [0.5, -0.1, 0.6], [-1.0]):
        with raises(ValueError):
            submission.inverse_cdf(np.array(bad), 0.5)


@given(size=integers(1, 9), kind=sampled_from(("dense", "zeros", "equal")), float32=sampled_from((False, True)))
def test_residual_and_rate(submission, rng, size, kind, float32):
    """residual is max(p - q, 0) normalised, p where nothing is left; acceptance_rate is 1 - total variation."""
    p = simplex(rng, size, kind == "zeros")
    q = p.copy() if kind == "equal" else simplex(rng, size, kind == "zeros")
    if float32:
        p, q = p.astype(np.float32), q.astype(np.float32)
    p64, q64 = p.astype(np.float64), q.astype(np.float64)
    left = np.maximum(p64 - q64, 0.0)
    expected = left / left.sum() if left.sum() > 0 else p64
    close(submission.residual(p, q), expected, 1e-10, dtype=np.float64, what="residual")
    close(submission.acceptance_rate(p, q), float(1 - np.abs(p64 - q64).sum() / 2), atol=1e-6, what="acceptance_rate")


@points(4)
def test_exact_by_enumeration(submission):
    """Each draft token, weighted by q, on an 8 x 8 grid of uniforms: the emitted token is distributed as p to 1e-12."""
    rows = np.stack([P, np.ones(4) / 4])
    grid = list(itertools.product(range(4), midpoints(8), midpoints(8)))
    results = submission.many("verify", [((rows, Q[None], [x], [u], v), {}) for x, u, v in grid])
    emitted = np.zeros(4)
    for (x, _, _), (accepted, token) in zip(grid, results, strict=True):
        emitted[x if accepted else token] += Q[x] / 64
    close(emitted, P, 1e-12, what="distribution of the emitted token")


@points(4)
def test_exact_over_two_positions(submission, rng):
    """k = 2, rows that depend on what was drafted, integrated exactly: each emitted token follows the target's row."""
    v = 3
    p0, q0 = simplex(rng, v, False), simplex(rng, v, False)
    p1, q1 = ([simplex(rng, v, False) for _ in range(v)] for _ in range(2))
    p2 = [[simplex(rng, v, False) for _ in range(v)] for _ in range(v)]
    calls, weights, drafts = [], [], []
    for a, b in itertools.product(range(v), repeat=2):
        rows = np.stack([p0, p1[a], p2[a][b]])
        cuts = np.concatenate([excess(p0, q0).cumsum(), excess(p1[a], q1[a]).cumsum(), p2[a][b].cumsum()])
        for (u0, w0), (u1, w1), (un, wn) in itertools.product(
            pieces(p0[a] / q0[a]), pieces(p1[a][b] / q1[a][b]), pieces(*cuts)
        ):
            calls.append(((rows, np.stack([q0, q1[a]]), [a, b], [u0, u1], un), {}))
            weights.append(q0[a] * q1[a][b] * w0 * w1 * wn)
            drafts.append([a, b])
    first, second, third = np.zeros(v), np.zeros((v, v)), np.zeros((v, v, v))
    for draft, weight, (n, token) in zip(drafts, weights, submission.many("verify", calls), strict=True):
        text = [*draft[:n], token]
        first[text[0]] += weight
        if len(text) > 1:
            second[text[0], text[1]] += weight
        if len(text) > 2:
            third[text[0], text[1], text[2]] += weight
    close(first, p0, 1e-11, what="P(first)")
    for joint, what in ((second, "two"), (third, "three")):
        require(bool((joint.sum(-1) > 0).all()), f"some texts of {what} tokens never come", got=joint.sum(-1))
    close(second / second.sum(1, keepdims=True), np.stack(p1), 1e-11, what="P(second | first), where there are two")
    close(third / third.sum(2, keepdims=True), np.array(p2), 1e-11, what="P(third | two before), where there are three")
    kept = np.minimum(p0, q0)
    close(second.sum(1), kept, 1e-11, what="P(first = a and it was accepted)")


@points(2)
def test_statistical(submission, rng):
    """10,000 seeded draws over 8 tokens: frequencies follow p (a right program fails once in a million)."""
    p, q = simplex(rng, 8, False), simplex(rng, 8, False)
    sampler = submission.prop(Sampler)
    frequencies_match(sampler.count(submission.verify, p, q, int(rng.integers(2**32)), 10_000), p)


@points(3)
def test_candidates_are_exact(submission, rng):
    """Two candidates: the token is distributed as p, and one of them is accepted with probability 0.6875, not 0.5."""
    for p, q, rate in ((P, Q, 0.6875), (simplex(rng, 4, False), simplex(rng, 4, False), None)):
        r = excess(p, q)
        cuts = pieces(*excess(r, q).cumsum(), *r.cumsum(), *p.cumsum())
        # Cut at r / q and at p / q: a rule that takes the wrong one must be integrated exactly too.
        calls, weights = [], []
        for x, y in itertools.product(range(4), repeat=2):
            for (u, a), (v, b), (w, c) in itertools.product(
                pieces(p[x] / q[x]), pieces(r[y] / q[y], p[y] / q[y]), cuts
            ):
                calls.append(((p, q, [x, y], [u, v], w), {}))
                weights.append(q[x] * q[y] * a * b * c)
        emitted, accepted = np.zeros(4), 0.0
        for weight, (index, token) in zip(weights, submission.many("verify_candidates", calls), strict=True):
            emitted[token] += weight
            accepted += weight * (index is not None)
        close(emitted, p, atol=1e-11, what="distribution of the emitted token")
        if rate is not None:
            close(accepted, rate, 1e-11, what="probability that a candidate is accepted")


def test_candidates_in_order(submission):
    """The first candidate that passes is taken; its index and token come back. No candidates: a draw from p."""
    equal(submission.verify_candidates(P, Q, [0, 1], [0.3, 0.3], 0.5), (0, 0), "the first passes")
    # After 3 is rejected r = [0.75, 0.25, 0, 0]: token 1 passes for u * 0.25 < 0.25.
    equal(submission.verify_candidates(P, Q, [3, 1], [0.0, 0.9], 0.5), (1, 1), "the second passes")
    # Token 2 has p = 0.125, but nothing is left of it in the residual.
    equal(submission.verify_candidates(P, Q, [3, 2], [0.0, 0.0], 0.5), (None, 0), "both rejected")
    equal(submission.verify_candidates(P, Q, [3, 3, 1], [0.0, 0.0, 0.9], 0.5), (None, 0), "three rejected")
    for u, token in ((0.49, 0), (0.5, 1), (0.86, 1), (0.9, 2)):
        equal(submission.verify_candidates(P, Q, [], [], u), (None, token), f"no candidates, u_next = {u}")


@points(2)
def test_prefix_then_stop(submission, rng):
    """A rejection at place 1 of 4 gives n_accepted = 1, whatever the later uniforms and drafts say."""
    p = np.stack([P, P, P, P, np.array([0.0, 0.0, 0.0, 1.0])])
    q = np.stack([Q] * 4)
    for u2, u3 in itertools.product((0.0, 0.5, 0.99), repeat=2):
        equal(submission.verify(p, q, [0, 3, 0, 1], [0.9, 0.1, u2, u3], 0.8), (1, 1), f"u_accept[2:] = {[u2, u3]}")
        equal(submission.verify(p, q, [1, 2, 0, 0], [0.9, 0.6, u2, u3], 0.2), (1, 0), f"u_accept[2:] = {[u2, u3]}")
    equal(submission.verify(p, q, [3, 0, 0, 0], [0.0] * 4, 0.2), (0, 0), "the first is rejected")


@points(2)
def test_bonus_row(submission):
    """All accepted: the next token comes from p[k], without regard to q; k = 0 is such a case."""
    last = np.array([0.0, 0.25, 0.0, 0.75])
    for q_last in (Q, P, np.array([0.25, 0.25, 0.25, 0.25])):
        p, q = np.stack([P, P, last]), np.stack([Q, q_last])
        for u, token in ((0.0, 1), (0.24, 1), (0.25, 3), (0.99, 3)):
            equal(submission.verify(p, q, [0, 1], [0.0, 0.0], u), (2, token), f"u_next = {u}")
    for u, token in ((0.1, 1), (0.5, 3)):
        equal(submission.verify(last[None], np.zeros((0, 4)), [], [], u), (0, token), f"k = 0, u_next = {u}")


@points(2)
@given(k=integers(0, 6), size=integers(1, 12), float32=sampled_from((False, True)), u=sampled_from((0.0, 0.5, 0.9999)))
def test_equal_models_accept_all(submission, rng, k, size, float32, u):
    """p == q accepts every token for u up to 0.9999, also float32 rows whose sum is not exactly 1."""
    p = np.stack([simplex(rng, size, False) for _ in range(k + 1)])
    if float32:
        p = p.astype(np.float32)
    draft = [int(row.argmax()) if rng.random() < 0.5 else int(rng.integers(size)) for row in p[:k]]
    n, token = submission.verify(p, p[:k].copy(), draft, [u] * k, float(rng.random()))
    equal(n, k, "n_accepted")
    require(0 <= token < size, "the bonus token is no index", got=token, expected=f"0 to {size - 1}")


def test_impossible_draft_raises(submission):
    """q = 0 at the drafted token: ValueError. p = 0 at it: always rejected, also for u = 0."""
    p, q = np.stack([P, P, P]), np.stack([np.array([0.5, 0.0, 0.25, 0.25]), np.array([0.0, 0.5, 0.25, 0.25])])
    with raises(ValueError):
        submission.verify(p, q, [1, 1], [0.5, 0.5], 0.5)
    with raises(ValueError):
        submission.verify(p, q, [0, 0], [0.5, 0.5], 0.5)
    equal(submission.verify(np.stack([P, P]), Q[None], [3], [0.0], 0.1), (0, 0), "p = 0 and u = 0")


@points(2)
def test_wrong_rules_are_visible(submission, rng):
    """induced_distribution gives p for the right rule, [0.375, 0.4375, 0.1875, 0] if the replacement is from p."""
    accept = np.minimum(1.0, P / Q)
    close(submission.induced_distribution(Q, accept, excess(P, Q)), P, 1e-12)
    close(submission.induced_distribution(Q, accept, P), np.array([0.375, 0.4375, 0.1875, 0.0]), 1e-12)
    for size in (1, 2, 5, 17):
        q, accept, fallback = simplex(rng, size, True), rng.random(size), simplex(rng, size, True)
        expected = [
            sum(q[x] * (accept[x] * (x == t) + (1 - accept[x]) * fallback[t]) for x in range(size)) for t in range(size)
        ]
        close(submission.induced_distribution(q, accept, fallback), np.array(expected), 1e-10, dtype=np.float64)
