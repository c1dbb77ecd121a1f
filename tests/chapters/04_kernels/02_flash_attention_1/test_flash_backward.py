"""Hidden tests: FlashAttention backward."""

import math

import torch

from grader.testing import (
    booleans,
    close,
    equal,
    flops,
    given,
    integers,
    largest_temporary,
    needs,
    points,
    require,
    sampled_from,
    saved_for_backward,
)

INF = float("inf")


def inputs(heads, n, m, d, seed, dtype=torch.float32):
    """q, k, v and do, with q and do non-contiguous as after `x.view(B, n, H, d).transpose(1, 2)`."""
    generator = torch.Generator().manual_seed(seed)

    def rows(count):
        return torch.randn(heads[0], count, heads[1], d, generator=generator).to(dtype).transpose(1, 2)

    return rows(n), rows(m).contiguous(), rows(m).contiguous(), rows(n)


def hidden(n, m, causal):
    """True where query i does not see key j."""
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (j > i + m - n) & causal


def dense(q, k, v, causal=False, scale=None):
    """o and lse in the dtype of q, with the whole matrix; differentiable."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    mask = hidden(q.shape[-2], k.shape[-2], causal)
    scores = scale * (q @ k.mT)
    lse = scores.masked_fill(mask, -INF).logsumexp(-1)
    finite = torch.where(lse == -INF, 0.0, lse)
    p = torch.exp(scores.masked_fill(mask, -INF) - finite[..., None])
    return p @ v, lse


def case(q, k, v, do, causal=False, scale=None):
    """(arguments of flash_backward, dq, dk, dv): o and lse as a float64 forward gives them, gradients by autograd."""
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    o, lse = dense(*leaves, causal, scale)
    gradients = torch.autograd.grad(o, leaves, do.double())
    lse = lse.detach().to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    return (q, k, v, o.detach().to(q.dtype), lse, do), *gradients


def formula(q, k, v, o, lse, do, causal=False, scale=None):
    """(dq, dk, dv) in float64 by the formulas of the docstring, from o and lse just as they are given."""
    q, k, v, o, lse, do = (x.double() for x in (q, k, v, o, lse, do))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p = torch.exp(scale * (q @ k.mT) - lse[..., None]).masked_fill(hidden(q.shape[-2], k.shape[-2], causal), 0.0)
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True))
    return scale * (ds @ k), scale * (ds.mT @ q), p.mT @ do


def check(got, expected, rtol, dtype, atol=0.0):
    for name, gradient, right in zip(("dq", "dk", "dv"), got, expected, strict=True):
        close(gradient, right, rtol=rtol, atol=atol, by="tensor", dtype=dtype, what=name)


@points(3)
@given(
    examples=15,
    n=integers(8, 70),
    m=integers(8, 70),
    d=sampled_from([4, 16, 33]),
    block_q=integers(6, 80),
    block_k=integers(6, 80),
    causal=booleans(),
    wide=booleans(),
    seed=integers(0, 999),
)
def test_matches_autograd(submission, n, m, d, block_q, block_k, causal, wide, seed):
    """Gradients agree with float64 autograd through dense attention, in blocks that divide neither n nor m."""
    dtype = torch.float64 if wide else torch.float32
    rtol = 1e-10 if wide else 1e-5
    q, k, v, do = inputs((2, 3), n, m, d, seed, dtype)
    arguments, *expected = case(q, k, v, do, causal)
    got = submission.flash_backward(*arguments, causal=causal, block_q=block_q, block_k=block_k)
    check(got, expected, rtol, dtype)

    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = submission.flash_attention(*leaves, causal, None, block_k)
    close(o, arguments[3].double(), rtol=rtol, by="tensor", dtype=dtype, what="o of FlashAttention")
    check(torch.autograd.grad(o, leaves, do), expected, rtol, dtype)


@given(examples=12, n=integers(1, 5), m=integers(1, 3), causal=booleans(), seed=integers(0, 999))
def test_few_keys(submission, n, m, causal, seed):
    """One, two or three keys. A single key has p = 1 whatever its score: dq and dk are 0 up to rounding."""
    arguments, *expected = case(*inputs((1, 2), n, m, 8, seed), causal)
    got = submission.flash_backward(*arguments, causal=causal, block_q=2, block_k=2)
    check(got, expected, 1e-5, torch.float32, atol=1e-5)


def test_blocks_are_irrelevant(submission):
    """n = 20, m = 23: tiles of one row, odd tiles and tiles larger than everything give the same gradients."""
    for causal in (False, True):
        arguments, *expected = case(*inputs((1, 2), 20, 23, 8, 0), causal)
        for block_q, block_k in ((1, 1), (7, 5), (5, 7), (64, 16), (1000, 1000)):
            if block_q == 1 and not causal:
                continue  # 460 tiles; the causal case covers it
            got = submission.flash_backward(*arguments, causal=causal, block_q=block_q, block_k=block_k)
            check(got, expected, 1e-5, torch.float32)


@needs("matches_autograd")
def test_gradcheck(submission):
    """torch.autograd.gradcheck passes in float64 on (1, 2, 7, 4) with block 3, causal or not, also with n unlike m."""
    for m, causal in ((7, False), (7, True), (5, True), (8, False)):
        leaves = [x.requires_grad_() for x in inputs((1, 2), 7, m, 4, 0, torch.float64)[:3]]
        correct = torch.autograd.gradcheck(
            submission.flash_attention, (*leaves, causal, None, 3), fast_mode=True, raise_exception=False
        )
        require(correct, f"gradients agree with finite differences (n = 7, m = {m}, causal = {causal}, block = 3)")


@points(2)
@given(
    examples=10,
    m=integers(1, 40),
    more=integers(1, 30),
    block_q=integers(4, 50),
    block_k=integers(4, 50),
    seed=integers(0, 999),
)
def test_masked_rows(submission, m, more, block_q, block_k, seed):
    """Causal with more queries than keys: gradients finite, and dq of rows that see no key exactly 0."""
    arguments, *expected = case(*inputs((1, 2), m + more, m, 8, seed), True)
    got = submission.flash_backward(*arguments, causal=True, block_q=block_q, block_k=block_k)
    check(got, expected, 1e-5, torch.float32, atol=1e-5)
    equal(got[0][..., :more, :], torch.zeros(1, 2, more, 8), what="dq of rows that see no key")


@given(examples=6, n=integers(2, 30), m=integers(2, 30), causal=booleans(), seed=integers(0, 999))
def test_uses_the_given_lse(submission, n, m, causal, seed):
    """With log 2 added to lse every probability, and so every gradient, is half as large: nothing is renormalised."""
    arguments, *expected = case(*inputs((1, 2), n, m, 8, seed, torch.float64), causal)
    q, k, v, o, lse, do = arguments
    got = submission.flash_backward(q, k, v, o, lse + math.log(2), do, causal=causal, block_q=8, block_k=7)
    check(got, [gradient / 2 for gradient in expected], 1e-6, torch.float64)


@given(examples=6, n=integers(2, 30), m=integers(2, 30), causal=booleans(), seed=integers(0, 999))
def test_uses_the_given_o(submission, n, m, causal, seed):
    """With o = 0 the gradients lack the delta term, with 2 * o they have it twice: it comes from o and do alone."""
    (q, k, v, o, lse, do), *_ = case(*inputs((1, 2), n, m, 8, seed, torch.float64), causal)
    for other in (torch.zeros_like(o), 2 * o):
        got = submission.flash_backward(q, k, v, other, lse, do, causal=causal, block_q=8, block_k=7)
        check(got, formula(q, k, v, other, lse, do, causal), 1e-9, torch.float64)


@given(
    examples=8,
    n=integers(2, 30),
    m=integers(2, 30),
    scale=sampled_from([0.3, 1.0, -0.5]),
    causal=booleans(),
    seed=integers(0, 999),
)
def test_other_scale(submission, n, m, scale, causal, seed):
    """Any scale reaches p, dq and dk, once each; scale = 0 is a scale too."""
    q, k, v, do = inputs((2, 1), n, m, 16, seed, torch.float64)
    arguments, *expected = case(q, k, v, do, causal, scale)
    got = submission.flash_backward(*arguments, causal=causal, scale=scale, block_q=8, block_k=7)
    check(got, expected, 1e-9, torch.float64)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = submission.flash_attention(*leaves, causal, scale, 9)
    check(torch.autograd.grad(o, leaves, do), expected, 1e-9, torch.float64)

    arguments, dq, dk, dv = case(q, k, v, do, causal, 0.0)
    got = submission.flash_backward(*arguments, causal=causal, scale=0.0, block_q=8, block_k=7)
    close(got[0], dq, atol=1e-12, what="dq at scale 0")
    close(got[1], dk, atol=1e-12, what="dk at scale 0")
    close(got[2], dv, rtol=1e-9, by="tensor", what="dv at scale 0")


@given(
    examples=8,
    n=integers(2, 40),
    m=integers(2, 40),
    causal=booleans(),
    shift=sampled_from([0.0, 100.0]),
    seed=integers(0, 999),
)
def test_half_precision(submission, n, m, causal, shift, seed):
    """float16 inputs: float16 gradients, as good as float16 allows, also where dp - delta cancels (v around 100)."""
    q, k, v, do = inputs((1, 2), n, m, 16, seed, torch.float16)
    arguments, *_ = case(q, k, v + shift, do, causal)
    got = submission.flash_backward(*arguments, causal=causal, block_q=6, block_k=5)
    check(got, formula(*arguments, causal), 3e-3, torch.float16)


def test_half_precision_adds_up(submission):
    """float16 inputs and hundreds of tiles: gradients are added up in float32 and rounded once."""
    for n, m, block_q, block_k in ((300, 4, 1, 4), (4, 300, 4, 1)):
        arguments, *_ = case(*inputs((1, 1), n, m, 16, 0, torch.float16))
        got = submission.flash_backward(*arguments, block_q=block_q, block_k=block_k)
        check(got, formula(*arguments), 1.2e-3, torch.float16)


@needs("blocks_are_irrelevant")
def test_cost_five_products_a_tile(submission):
    """10 * block_q * block_k * d FLOPs for each head and visited tile; tiles without a visible pair are skipped."""
    d, block_q, block_k = 24, 16, 20
    for n, m, causal in ((64, 100, False), (64, 100, True), (96, 60, True), (160, 160, True)):
        arguments, *_ = case(*inputs((1, 2), n, m, d, 0), causal)
        with flops(submission) as cost:
            submission.flash_backward(*arguments, causal=causal, block_q=block_q, block_k=block_k)
        tiles = sum(
            not causal or j <= min(i + block_q, n) - 1 + m - n
            for i in range(0, n, block_q)
            for j in range(0, m, block_k)
        )
        limit = 1.02 * 2 * 10 * block_q * block_k * d * tiles
        cost.at_most(math.floor(limit), f"five products in each of {tiles} visited tiles of 2 heads, and 2 %")


@needs("blocks_are_irrelevant")
def test_cost_largest_tensor(submission):
    """No tensor is larger than a tile of scores or the inputs: no n x m matrix."""
    for (n, m, d), (block_q, block_k), dtype in (
        ((200, 160, 8), (16, 24), torch.float32),
        ((90, 130, 16), (32, 32), torch.float16),
    ):
        arguments, *_ = case(*inputs((2, 2), n, m, d, 0, dtype), True)
        with largest_temporary(submission) as cost:
            submission.flash_backward(*arguments, causal=True, block_q=block_q, block_k=block_k)
        cost.at_most(4 * max(block_q * block_k, n * d, m * d), "B * H * max(block_q * block_k, n * d, m * d)")


@needs("matches_autograd")
def test_cost_saved_for_backward(submission):
    """What the graph keeps is q, k, v, o and lse, not the probabilities."""
    for n, m, d in ((128, 128, 8), (60, 200, 16)):
        q, k, v, _ = inputs((2, 2), n, m, d, 0)
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with saved_for_backward(submission) as cost:
            submission.flash_attention(*leaves, True, None, 32)
        cost.at_most(4 * (4 * max(n, m) * d + n), "4 * B * H * max(n, m) * d + B * H * n elements")
