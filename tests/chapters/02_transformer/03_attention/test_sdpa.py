"""Hidden tests: scaled dot-product attention in numpy. Oracle: torch's, in float64, with the mask spelt out."""

import numpy as np
import torch

from grader.testing import (
    booleans,
    close,
    given,
    integers,
    points,
    require,
    sampled_from,
    warnings_are_errors,
)

Q = np.array([[1.0, 0.0], [0.0, 1.0]])
K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
V = np.array([[1.0], [2.0], [4.0]])

LEADING = (
    ((), (), ()),
    ((2,), (2,), (2,)),
    ((3, 2), (3, 2), (3, 2)),
    ((), (3,), (3,)),
    ((3,), (), ()),
    ((), (), (2,)),
    ((2, 1), (3,), (1, 3)),
    ((2, 1, 1), (1, 2, 1), (3,)),
)
"""Leading dimensions of q, k and v, which broadcast."""


def float_mask(mask, causal, lq, lk):
    """Everything that is added to the scores, in float64: mask and causal triangle in one (..., Lq, Lk) tensor."""
    bias = torch.zeros(lq, lk, dtype=torch.float64)
    if mask is not None and mask.dtype == bool:
        bias = torch.where(torch.from_numpy(np.array(mask)), bias, -torch.inf)
    elif mask is not None:
        bias = bias + torch.from_numpy(np.array(mask, dtype=np.float64))
    if causal:
        later = torch.arange(lk) > torch.arange(lq)[:, None] + (lk - lq)
        bias = bias.masked_fill(later, -torch.inf)
    return bias


def oracle(q, k, v, mask=None, causal=False, scale=None):
    """torch's attention in float64; a query that may attend to nothing gets 0."""
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (torch.from_numpy(np.array(x, dtype=np.float64)) for x in (q, k, v))
    q, k, v = (x.expand(*leading, *x.shape[-2:]).contiguous() for x in (q, k, v))
    bias = float_mask(mask, causal, q.shape[-2], k.shape[-2]).expand(*leading, q.shape[-2], k.shape[-2])
    blind = (bias == -torch.inf).all(-1, keepdim=True)
    # Blind rows look at everything here and are zeroed: the oracle does not lean on torch's own rule for them.
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(blind, 0.0), scale=scale)
    return out.masked_fill(blind, 0.0).numpy()


def weights_oracle(q, k, mask=None, causal=False, scale=None):
    """The weights are the outputs for v = identity."""
    return oracle(q, k, np.eye(k.shape[-2]), mask, causal, scale)


def all_zero(x, what):
    """-0.0 is zero as well."""
    require(not np.any(x), f"{what}: not exactly 0", got=x, expected=np.zeros_like(x))


def draw_mask(rng, kind, shape):
    if kind == "bool":
        return rng.random(shape) < 0.6
    if kind == "float":
        return 3.0 * rng.standard_normal(shape)
    if kind == "float with -inf":
        return np.where(rng.random(shape) < 0.6, rng.standard_normal(shape), -np.inf)
    return None


def strided(x):
    """The same values in memory that is not contiguous."""
    apart = np.zeros((*x.shape[:-2], x.shape[-1], 2 * x.shape[-2] + 1), dtype=x.dtype)
    apart[..., 1::2] = np.swapaxes(x, -1, -2)
    return np.swapaxes(apart[..., 1::2], -1, -2)


@points(2)
def test_worked_example(submission):
    """Two queries and three keys, by hand: scale, softmax over the keys, bottom-right causal mask."""
    close(submission.attention(Q, K, V), [[2.40111209], [2.60444837]], rtol=1e-7)
    close(
        submission.attention_weights(Q, K),
        [[0.40111209, 0.19777581, 0.40111209], [0.19777581, 0.40111209, 0.40111209]],
        rtol=1e-7,
    )
    close(submission.attention(Q, K, V, causal=True), [[1.33023845], [2.60444837]], rtol=1e-7)


@points(3)
@given(
    lq=integers(1, 17),
    lk=integers(1, 17),
    d=integers(1, 20),
    dv=integers(1, 9),
    leading=sampled_from(LEADING),
    kind=sampled_from(("none", "bool", "float", "float with -inf")),
    mask_shape=sampled_from(("full", "one for all", "one per key", "one per query")),
    causal=booleans(),
    size=sampled_from((1.0, 4.0)),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=50,
)
def test_matches_torch(submission, lq, lk, d, dv, leading, kind, mask_shape, causal, size, contiguous, seed):
    """float64 against torch: leading dimensions that broadcast, bool and float masks of any such shape, causal."""
    rng = np.random.default_rng(seed)
    q = size * rng.standard_normal((*leading[0], lq, d))
    k = rng.standard_normal((*leading[1], lk, d))
    v = rng.standard_normal((*leading[2], lk, dv)) + 1.0
    shapes = {
        "full": (*np.broadcast_shapes(leading[0], leading[1]), lq, lk),
        "one for all": (lq, lk),
        "one per key": (lk,),
        "one per query": (lq, 1),
    }
    mask = draw_mask(rng, kind, shapes[mask_shape])
    if not contiguous:
        q, k, v = strided(q), strided(k), strided(v)
    close(submission.attention(q, k, v, mask, causal), oracle(q, k, v, mask, causal), rtol=1e-11, by="tensor")
    close(
        submission.attention_weights(q, k, mask, causal),
        weights_oracle(q, k, mask, causal),
        rtol=1e-11,
        by="tensor",
        what="attention_weights",
    )


@points(2)
def test_float32_inputs(submission, rng):
    """float32 in, float32 out, whatever the float mask's dtype; shifted and heavy-tailed entries."""
    for lq, lk, d in ((1, 15, 16), (17, 17, 64), (16, 129, 127)):
        q = rng.standard_normal((2, lq, d)).astype(np.float32)
        k = (rng.standard_normal((2, lk, d)) + 3.0).astype(np.float32)
        v = rng.standard_normal((2, lk, 5)).astype(np.float32)
        v[:, -1] *= 1000.0
        mask = rng.standard_normal((lq, lk))
        for dtype in (np.float32, np.float64):
            got = submission.attention(q, k, v, mask.astype(dtype), causal=True, scale=0.1)
            close(got, oracle(q, k, v, mask.astype(dtype), True, 0.1), rtol=1e-4, dtype=np.float32)
        weights = submission.attention_weights(q, k)
        close(weights, weights_oracle(q, k), rtol=1e-4, dtype=np.float32, what="attention_weights")


@points(2)
def test_decode_shape(submission, rng):
    """Causal with Lq != Lk: a single query sees every key; with more queries than keys the first ones see nothing."""
    k, v = rng.standard_normal((7, 4)), rng.standard_normal((7, 3))
    q = rng.standard_normal((1, 4))
    close(submission.attention(q, k, v, causal=True), oracle(q, k, v), rtol=1e-11, by="tensor")
    q = rng.standard_normal((3, 4))
    close(submission.attention(q, k, v, causal=True), oracle(q, k, v, causal=True), rtol=1e-11, by="tensor")
    q = rng.standard_normal((9, 4))
    got = submission.attention(q, k, v, causal=True)
    close(got, oracle(q, k, v, causal=True), rtol=1e-11, by="tensor")
    all_zero(got[:2], "the first Lq - Lk = 2 rows")
    # Together with a mask that forbids the key which the first seeing query has left.
    mask = np.ones((9, 7), dtype=bool)
    mask[2, 0] = False
    got = submission.attention(q, k, v, mask=mask, causal=True)
    close(got, oracle(q, k, v, mask, True), rtol=1e-11, by="tensor")


@points(2)
def test_fully_masked_rows(submission, rng):
    """A query that may attend to nothing: exactly 0 in output and weights, no NaN, no warning (warnings are errors)."""
    for dtype in (np.float64, np.float32, np.float16):
        q, k = rng.standard_normal((2, 4, 8)).astype(dtype), rng.standard_normal((2, 5, 8)).astype(dtype)
        v = (rng.standard_normal((2, 5, 3)) + 5.0).astype(dtype)
        allowed = rng.random((4, 5)) < 0.7
        allowed[:, 0] = True
        allowed[1] = False
        for mask in (allowed, np.where(allowed, 0.5, -np.inf).astype(dtype)):
            rtol = 5e-3 if dtype == np.float16 else 1e-5
            with warnings_are_errors(submission):
                got = submission.attention(q, k, v, mask=mask)
            close(got, oracle(q, k, v, mask), rtol=rtol, dtype=dtype)
            all_zero(got[:, 1], "the output of the query that sees nothing")
            with warnings_are_errors(submission):
                weights = submission.attention_weights(q, k, mask=mask)
            close(weights, weights_oracle(q, k, mask), rtol=rtol, what="attention_weights")
            all_zero(weights[..., ~allowed], "the weights of keys that may not be attended to")
        with warnings_are_errors(submission):
            got = submission.attention(q, k, v, mask=np.zeros((4, 5), dtype=bool), causal=True)
        close(got, np.zeros((2, 4, 3)), rtol=0.0, dtype=dtype, what="the output where no query sees anything")


def clear_winners(rng, lq, lk, d):
    """float32 q and k in the thousands; each query prefers one key by more than 2,000 after scaling."""
    while True:
        q = (1000.0 * rng.standard_normal((lq, d))).astype(np.float32)
        k = (1000.0 * rng.standard_normal((lk, d))).astype(np.float32)
        scores = np.sort(q.astype(np.float64) @ k.T.astype(np.float64) * d**-0.5, axis=-1)
        if (scores[:, -1] - scores[:, -2]).min() > 2000.0:
            return q, k


@points(1)
def test_huge_logits(submission, rng):
    """q and k in the thousands, scores in the millions, of both signs: finite, and the right value wins."""
    q, k = clear_winners(rng, 6, 9, 16)
    v = rng.standard_normal((9, 5)).astype(np.float32)
    with warnings_are_errors(submission):
        got = submission.attention(q, k, v)
    close(got, oracle(q, k, v), rtol=1e-5, dtype=np.float32)
    # All scores of one row far below zero: exp would underflow to a sum of 0 without the maximum.
    q, k = np.full((1, 4), 1000.0), -1000.0 * np.array([[1.0] * 4, [1.0] * 4, [1.5] * 4])
    v = np.array([[1.0], [2.0], [5.0]])
    close(submission.attention(q, k, v), [[1.5]], rtol=1e-12)


@points(2)
def test_float16_inputs(submission, rng):
    """float16 in, float16 out, computed in float32: raw scores of 115,000 exceed float16."""
    q = (30.0 + rng.uniform(-1.0, 1.0, (5, 128))).astype(np.float16)
    k = (30.0 + rng.uniform(-1.0, 1.0, (9, 128))).astype(np.float16)
    v = rng.standard_normal((9, 4)).astype(np.float16)
    with warnings_are_errors(submission):
        got = submission.attention(q, k, v)
    # A float32 score of 115,000 has an honest error of about 1e-2, and exp makes it relative.
    close(got, oracle(q, k, v), rtol=3e-2, dtype=np.float16)
    q, k = rng.standard_normal((2, 17, 64)).astype(np.float16), rng.standard_normal((2, 100, 64)).astype(np.float16)
    v = rng.standard_normal((2, 100, 16)).astype(np.float16)
    mask = rng.standard_normal((17, 100)).astype(np.float16)
    close(submission.attention(q, k, v, mask, True), oracle(q, k, v, mask, True), rtol=5e-3, dtype=np.float16)


@points(1)
def test_scale_argument(submission, rng):
    """scale 1.0, 0.0 (a plain average over the allowed keys) and negative are used as they are."""
    q, k, v = rng.standard_normal((3, 5)), rng.standard_normal((4, 5)), rng.standard_normal((4, 2))
    for scale in (1.0, 0.3, -0.7):
        close(submission.attention(q, k, v, scale=scale), oracle(q, k, v, scale=scale), rtol=1e-11, by="tensor")
        close(
            submission.attention_weights(q, k, causal=True, scale=scale),
            weights_oracle(q, k, causal=True, scale=scale),
            rtol=1e-11,
            by="tensor",
        )
    mask = np.array([[True, True, True, True], [True, False, False, True], [False, True, False, False]])
    uniform = mask / mask.sum(-1, keepdims=True)
    close(submission.attention_weights(q, k, mask, scale=0.0), uniform, rtol=1e-12)
    close(submission.attention(q, k, v, mask, scale=0.0), uniform @ v, rtol=1e-11, by="tensor")


@points(1)
def test_inputs_untouched(submission, rng):
    """No argument is changed, and the same call gives the same answer again."""
    for dtype in (np.float16, np.float32, np.float64):
        q, k, v = (rng.standard_normal((2, 5, 4)).astype(dtype) for _ in range(3))
        for mask in (rng.random((2, 5, 5)) < 0.6, rng.standard_normal((2, 5, 5)).astype(dtype)):
            first = submission.attention(q, k, v, mask, causal=True)
            close(submission.attention(q, k, v, mask, causal=True), first, what="the second call")
            submission.attention_weights(q, k, mask, causal=True)
