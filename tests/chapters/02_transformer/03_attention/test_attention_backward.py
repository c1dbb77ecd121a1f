"""Hidden tests: attention's backward pass. Oracle: torch's autograd in float64, explicit Jacobians, differences."""

import numpy as np
import torch
from scipy.special import logsumexp

from grader.testing import (
    booleans,
    close,
    given,
    integers,
    peak_memory,
    points,
    require,
    sampled_from,
    warnings_are_errors,
)


def visible(lq, lk, causal):
    """(Lq, Lk) bool: which keys a query sees."""
    if not causal:
        return np.ones((lq, lk), dtype=bool)
    return np.arange(lk) <= np.arange(lq)[:, None] + (lk - lq)


def masked_scores(q, k, causal, scale):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * np.einsum("...id,...jd->...ij", q, k)
    return np.where(visible(q.shape[-2], k.shape[-2], causal), scores, -np.inf)


def forward_oracle(q, k, v, causal=False, scale=None):
    scores = masked_scores(q, k, causal, scale)
    lse = np.full(scores.shape[:-1], -np.inf)
    seen = visible(q.shape[-2], k.shape[-2], causal).any(-1)
    lse[..., seen] = logsumexp(scores[..., seen, :], axis=-1)
    weights = np.zeros_like(scores)
    weights[..., seen, :] = np.exp(scores[..., seen, :] - lse[..., seen, None])
    return np.einsum("...ij,...jc->...ic", weights, v), lse


def autograd_oracle(do, q, k, v, causal=False, scale=None):
    """torch's gradients of sum(do * o). Rows without keys are left out of the graph: they are constant."""
    q, k, v = (torch.from_numpy(np.array(x)).requires_grad_() for x in (q, k, v))
    lq, lk = q.shape[-2], k.shape[-2]
    allowed = torch.from_numpy(visible(lq, lk, causal))
    seen = allowed.any(-1)
    out = torch.nn.functional.scaled_dot_product_attention(
        q[..., seen, :], k, v, attn_mask=allowed[seen].expand(*q.shape[:-2], -1, -1), scale=scale
    )
    loss = (out * torch.from_numpy(np.array(do))[..., seen, :]).sum()
    return [x.numpy() for x in torch.autograd.grad(loss, (q, k, v))]


def draw(rng, lq, lk, d, dv, leading=()):
    shapes = ((lq, dv), (lq, d), (lk, d), (lk, dv))
    return [rng.standard_normal((*leading, *shape)) for shape in shapes]


def compare(got, expected, rtol=1e-10):
    """dq, dk, dv relative to the largest entry. A softmax over one key has dq = dk = 0 up to rounding: atol."""
    require(isinstance(got, tuple) and len(got) == 3, "not a tuple of three arrays", got=got)
    for name, x, y in zip(("dq", "dk", "dv"), got, expected, strict=True):
        close(x, y, rtol=rtol, atol=1e-12, by="tensor", what=name)


def o_and_lse(got):
    require(isinstance(got, tuple) and len(got) == 2, "not a tuple of two arrays", got=got)
    return got


@points(2)
def test_worked_example(submission):
    """One query, two keys, scale 1: o, lse, dq, dk, dv by hand."""
    q, k, v, do = np.array([[1.0, 0.0]]), np.eye(2), np.array([[1.0], [3.0]]), np.array([[1.0]])
    o, lse = o_and_lse(submission.attention_forward(q, k, v, scale=1.0))
    close(o, [[1.5378828427]], rtol=1e-9, what="o")
    close(lse, [1.3132616875], rtol=1e-9, what="lse")
    dq, dk, dv = submission.attention_backward(
        do, q, k, v, np.array([[1.5378828427399902]]), np.array([1.3132616875182228]), scale=1.0
    )
    close(dq, [[-0.3932239, 0.3932239]], rtol=1e-6, what="dq")
    close(dk, [[-0.3932239, 0.0], [0.3932239, 0.0]], rtol=1e-6, what="dk")
    close(dv, [[0.7310586], [0.2689414]], rtol=1e-6, what="dv")


@points(5)
@given(
    lq=integers(1, 17),
    lk=integers(1, 17),
    d=integers(1, 16),
    dv=integers(1, 9),
    leading=sampled_from(((), (2,), (2, 3))),
    causal=booleans(),
    scale=sampled_from((None, 1.0, 0.3, -0.5)),
    size=sampled_from((1.0, 5.0)),
    seed=integers(0, 2**32 - 1),
    examples=40,
)
def test_matches_autograd(submission, lq, lk, d, dv, leading, causal, scale, size, seed):
    """dq, dk, dv against torch in float64: Lq <, = and > Lk, causal or not, dv other than d, batches, scales."""
    do, q, k, v = draw(np.random.default_rng(seed), lq, lk, d, dv, leading)
    q *= size
    o, lse = forward_oracle(q, k, v, causal, scale)
    got = submission.attention_backward(do, q, k, v, o, lse, causal, scale)
    compare(got, autograd_oracle(do, q, k, v, causal, scale))


@points(1)
def test_square_case(submission, rng):
    """Three queries, three keys, one feature: nothing in the shapes tells rows from columns."""
    do, q, k, v = draw(rng, 3, 3, 3, 1)
    for causal in (False, True):
        o, lse = forward_oracle(q, k, v, causal)
        got = submission.attention_backward(do, q, k, v, o, lse, causal)
        compare(got, autograd_oracle(do, q, k, v, causal))


@points(3)
@given(
    lq=integers(1, 17),
    lk=integers(1, 17),
    d=integers(1, 16),
    leading=sampled_from(((), (3,), (2, 2))),
    causal=booleans(),
    scale=sampled_from((None, 1.0, -0.5)),
    size=sampled_from((1.0, 8.0, 1000.0)),
    seed=integers(0, 2**32 - 1),
    examples=40,
)
def test_lse_is_right(submission, lq, lk, d, leading, causal, scale, size, seed):
    """lse is the logsumexp of the scaled, masked scores (scipy's), and o = exp(S - lse) v; scores of thousands too."""
    _, q, k, v = draw(np.random.default_rng(seed), lq, lk, d, 3, leading)
    q *= size
    o, lse = o_and_lse(submission.attention_forward(q, k, v, causal, scale))
    expected_o, expected_lse = forward_oracle(q, k, v, causal, scale)
    # A score of size s carries an error of about s * 1e-16 into lse, and exp carries it into o.
    largest = 1.0 + np.abs(np.einsum("...id,...jd->...ij", np.abs(q), np.abs(k))).max()
    close(lse, expected_lse, rtol=1e-10, atol=1e-14 * largest, by="element", what="lse")
    close(o, expected_o, rtol=1e-10 + 1e-14 * largest, by="tensor", what="o")


@points(2)
def test_rows_without_keys(submission, rng):
    """Causal with Lq > Lk: o = 0, lse = -inf, dq = 0, nothing added to dk and dv, no NaN, no warning."""
    for lq, lk, leading in ((5, 2, ()), (7, 4, (2,)), (3, 1, ())):
        do, q, k, v = draw(rng, lq, lk, 3, 2, leading)
        with warnings_are_errors(submission):
            o, lse = o_and_lse(submission.attention_forward(q, k, v, causal=True))
        expected_o, expected_lse = forward_oracle(q, k, v, True)
        close(o, expected_o, what="o", by="tensor")
        close(lse, expected_lse, what="lse")
        require(not np.any(o[..., : lq - lk, :]), "o is not exactly 0 in the rows without keys", got=o)
        with warnings_are_errors(submission):
            got = submission.attention_backward(do, q, k, v, expected_o, expected_lse, causal=True)
        compare(got, autograd_oracle(do, q, k, v, True))
        require(not np.any(got[0][..., : lq - lk, :]), "dq is not exactly 0 in the rows without keys", got=got[0])


@points(3)
def test_uses_o_and_lse(submission, rng):
    """o and lse count as they are passed in: with lse + 1 all gradients shrink by e, and another o moves D."""
    for lq, lk, causal, scale in ((3, 3, False, None), (4, 6, True, 0.7)):
        do, q, k, v = draw(rng, lq, lk, 5, 2)
        o, lse = forward_oracle(q, k, v, causal, scale)
        dq, dk, dv = autograd_oracle(do, q, k, v, causal, scale)
        got = submission.attention_backward(do, q, k, v, o, lse + 1.0, causal, scale)
        compare(got, (dq / np.e, dk / np.e, dv / np.e))

        other_o, other_lse = o + rng.standard_normal(o.shape), lse + rng.standard_normal(lse.shape)
        p = np.exp(masked_scores(q, k, causal, scale) - other_lse[:, None])
        ds = p * (do @ v.T - (do * other_o).sum(-1, keepdims=True))
        factor = 5**-0.5 if scale is None else scale
        got = submission.attention_backward(do, q, k, v, other_o, other_lse, causal, scale)
        compare(got, (factor * ds @ k, factor * ds.T @ q, p.T @ do))


@points(2)
def test_softmax_jacobian(submission, rng):
    """softmax_backward is (diag(p) - p p^T) dp in every row, for p of one, two and three dimensions; rows sum to 0."""
    for shape in ((1,), (7,), (3, 3), (4, 17), (2, 3, 5)):
        s, dp = 2.0 * rng.standard_normal(shape), rng.standard_normal(shape) + 1.0
        p = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        ds = submission.softmax_backward(p, dp)
        expected = np.zeros(shape)
        for row in np.ndindex(*shape[:-1]):
            expected[row] = (np.diag(p[row]) - np.outer(p[row], p[row])) @ dp[row]
        close(ds, expected, rtol=1e-10, atol=1e-14, by="tensor")
        close(np.atleast_1d(ds.sum(-1)), np.zeros(shape[:-1] or 1), atol=1e-13, what="the sums of the rows")


@points(2)
def test_finite_differences(submission, rng):
    """The backward pass agrees with central differences of sum(do * o) through your own forward pass."""
    h = 1e-5
    for lq, lk, causal, scale in ((3, 3, False, None), (2, 4, True, 1.3)):
        do, *arguments = draw(rng, lq, lk, 3, 2)
        calls = []
        for which, x in enumerate(arguments):
            for index in np.ndindex(*x.shape):
                for step in (h, -h):
                    moved = [a.copy() for a in arguments]
                    moved[which][index] += step
                    calls.append(((*moved, causal, scale), {}))
        values = [(do * o_and_lse(result)[0]).sum() for result in submission.many("attention_forward", calls)]
        slopes = (np.array(values[0::2]) - np.array(values[1::2])) / (2.0 * h)
        o, lse = o_and_lse(submission.attention_forward(*arguments, causal, scale))
        got = submission.attention_backward(do, *arguments, o, lse, causal, scale)
        sizes = np.cumsum([x.size for x in arguments])[:-1]
        expected = [part.reshape(x.shape) for part, x in zip(np.split(slopes, sizes), arguments, strict=True)]
        compare(got, expected, rtol=1e-6)


@points(2)
def test_cost_no_state_between_calls(submission, rng):
    """Between forward and backward nothing but q, k, v, o, lse exists: other calls in between change nothing."""
    cases = []
    for lq, lk, causal, scale in ((4, 4, True, None), (4, 4, False, 0.5), (2, 6, True, 1.1)):
        do, q, k, v = draw(rng, lq, lk, 4, 4)
        o, lse = o_and_lse(submission.attention_forward(q, k, v, causal, scale))
        cases.append((do, q, k, v, o, lse, causal, scale))
    for do, q, k, v, o, lse, causal, scale in cases:
        got = submission.attention_backward(do, q, k, v, o, lse, causal, scale)
        compare(got, autograd_oracle(do, q, k, v, causal, scale))


@points(3)
def test_cost_backward_memory(submission, rng):
    """The backward pass holds a few (Lq, Lk) arrays at once, never a Jacobian (512 times one)."""
    n = 512
    do, q, k, v = draw(rng, n, n, 16, 16)
    o, lse = forward_oracle(q, k, v, True)
    with peak_memory(submission) as cost:
        got = submission.attention_backward(do, q, k, v, o, lse, causal=True)
    compare(got, autograd_oracle(do, q, k, v, True))
    cost.at_most(12 * n * n * 8, "twelve float64 arrays of Lq * Lk = 512 * 512 numbers")
