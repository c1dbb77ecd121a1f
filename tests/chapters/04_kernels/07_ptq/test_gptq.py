"""Hidden tests: GPTQ. Oracle: OBS in float64 that inverts H anew for every column, without any Cholesky factor."""

import math

import torch

from grader.testing import (
    booleans,
    close,
    dispatched,
    equal,
    given,
    integers,
    largest_temporary,
    needs,
    points,
    require,
    sampled_from,
)

FLOAT = torch.float64


def seeded(seed=None):
    return torch.Generator().manual_seed(int(torch.randint(0, 2**31, ())) if seed is None else seed)


def activations(tokens, n, generator, factors=None):
    """Correlated inputs: few factors drive all channels, whose sizes differ; some noise, so that no channel is free."""
    factors = factors or max(1, n // 2)
    mix = torch.randn(factors, n, generator=generator, dtype=FLOAT)
    x = torch.randn(tokens, factors, generator=generator, dtype=FLOAT) @ mix
    x = x + 0.3 * torch.randn(tokens, n, generator=generator, dtype=FLOAT)
    return x * torch.exp(torch.randn(n, generator=generator, dtype=FLOAT))


def second_moments(x):
    return 2 / len(x) * x.T @ x


WEIGHTS = ("normal", "shifted up", "shifted down", "outliers", "row of zeros")


def draw_weights(out, n, generator, kind="normal"):
    w = torch.randn(out, n, generator=generator, dtype=FLOAT)
    if kind == "shifted up":
        w = 0.3 * w + 2.0
    elif kind == "shifted down":
        w = 0.3 * w - 2.0
    elif kind == "outliers":
        w[:, ::5] *= 10.0
    elif kind == "row of zeros":
        w[0] = 0.0
    return w


def grid(w, bits):
    lo, hi = w.amin(dim=1).clamp(max=0.0), w.amax(dim=1).clamp(min=0.0)
    scale = (hi - lo) / (2**bits - 1)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return scale, (-lo / scale).round()


def rounded(w, bits, group_size=None):
    """Round-to-nearest with the same rule for the grids: (codes, scale, zero)."""
    size = group_size or w.shape[1]
    parts = []
    for columns in w.split(size, dim=1):
        scale, zero = grid(columns, bits)
        codes = ((columns / scale[:, None]).round() + zero[:, None]).clamp(0, 2**bits - 1)
        parts.append((codes, scale[:, None], zero[:, None]))
    codes, scale, zero = (torch.cat(found, dim=1) for found in zip(*parts, strict=True))
    return codes.to(torch.uint8), scale, zero


def values(codes, scale, zero, group_size=None):
    """What the codes stand for."""
    size = group_size or codes.shape[1]
    columns = [(codes[:, j].to(scale.dtype) - zero[:, j // size]) * scale[:, j // size] for j in range(codes.shape[1])]
    return torch.stack(columns, dim=1)


def sequential_obs(w, h, bits=4, group_size=None, damp=0.01, act_order=False):
    """(codes, scale, zero): for every column the inverse over it and the columns to come, and the repair."""
    w, h, n = w.double().clone(), h.double().clone(), w.shape[1]
    for j in range(n):
        if h[j, j] == 0:
            h[j, j] = 1.0
            w[:, j] = 0.0
    h = h + damp * h.diagonal().mean() * torch.eye(n, dtype=FLOAT)
    size = group_size or n
    untouched = w.clone()
    order = sorted(range(n), key=lambda j: -float(h[j, j])) if act_order else list(range(n))
    codes = torch.zeros(w.shape, dtype=torch.uint8)
    scale, zero = (torch.zeros(len(w), math.ceil(n / size), dtype=FLOAT) for _ in range(2))
    for i, j in enumerate(order):
        g = j // size
        if act_order or j % size == 0:
            source = untouched if act_order else w
            scale[:, g], zero[:, g] = grid(source[:, g * size : (g + 1) * size], bits)
        left = order[i:]
        hinv = torch.linalg.inv(h[left][:, left])
        code = ((w[:, j] / scale[:, g]).round() + zero[:, g]).clamp(0, 2**bits - 1)
        error = w[:, j] - (code - zero[:, g]) * scale[:, g]
        w[:, left] -= torch.outer(error / hinv[0, 0], hinv[0])
        codes[:, j] = code.to(torch.uint8)
    return codes, scale, zero


def check(got, expected, what=""):
    """A Quantized in float64 against (codes, scale, zero)."""
    equal(got.codes, expected[0], what=f"codes{what}")
    close(got.scale, expected[1], rtol=1e-9, dtype=FLOAT, what=f"scale{what}")
    close(got.zero, expected[2], rtol=1e-12, dtype=FLOAT, what=f"zero{what}")


def loss(w, other, h):
    change = w.double() - other.double()
    return float(((change @ h) * change).sum())


def strided(x):
    """The same values in memory that is not contiguous."""
    apart = torch.zeros(2 * x.shape[1] + 1, 2 * x.shape[0] + 1, dtype=x.dtype)
    inner = apart.T[1::2, 1::2]
    inner.copy_(x)
    return inner


def test_worked_example(submission):
    """2 bits, two correlated columns and two on their own: 0.65 becomes 1, which moves 0.6 to 0.425 and so to 0."""
    w = torch.tensor([[0.65, 0.6, 2.0, -1.0], [0.2, 0.7, 0.0, 3.0]], dtype=FLOAT)
    h = torch.eye(4, dtype=FLOAT)
    h[:2, :2] = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    got = submission.gptq(w, h, bits=2, damp=0.0)
    close(got.scale, [[1.0], [1.0]], rtol=1e-12, dtype=FLOAT, what="scale")
    close(got.zero, [[1.0], [0.0]], rtol=1e-12, dtype=FLOAT, what="zero")
    equal(got.codes, torch.tensor([[2, 1, 3, 0], [0, 1, 0, 3]], dtype=torch.uint8), what="codes")
    back = submission.dequantize(got, None)
    close(back, [[1.0, 0.0, 2.0, -1.0], [0.0, 1.0, 0.0, 3.0]], rtol=1e-12, dtype=FLOAT, what="values")


@needs("worked_example")
@points(3)
@given(
    out=integers(1, 6),
    n=integers(1, 48),
    bits=integers(1, 8),
    damp=sampled_from((0.01, 0.0, 0.3)),
    act_order=booleans(),
    kind=sampled_from(WEIGHTS),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=12,
)
def test_equals_sequential_obs(submission, out, n, bits, damp, act_order, kind, contiguous, seed):
    """float64: the codes of an oracle that inverts H anew for every column, with one group."""
    generator = seeded(seed)
    w, h = draw_weights(out, n, generator, kind), second_moments(activations(4 * n + 8, n, generator))
    got = submission.gptq(
        w if contiguous else strided(w), h if contiguous else strided(h), bits=bits, damp=damp, act_order=act_order
    )
    check(got, sequential_obs(w, h, bits, None, damp, act_order))


@needs("worked_example")
def test_block_is_irrelevant(submission):
    """Blocks of 1, 7, 32 and 1000 columns give the same codes, in both orders, with and without groups."""
    generator = seeded()
    n = 40
    w, h = draw_weights(6, n, generator), second_moments(activations(256, n, generator))
    for group_size, act_order in ((None, False), (None, True), (20, False)):
        expected = sequential_obs(w, h, 3, group_size, act_order=act_order)
        for block in (1, 7, 32, 1000):
            got = submission.gptq(w, h, bits=3, group_size=group_size, block=block, act_order=act_order)
            check(got, expected, f", block {block}, group_size {group_size}, act_order {act_order}")


@needs("worked_example")
def test_defaults(submission):
    """Only w and h, 150 columns: 4 bits, one group (not one per 128 columns), damp 0.01, natural order."""
    generator = seeded()
    w, h = draw_weights(3, 150, generator), second_moments(activations(200, 150, generator))
    got, expected = submission.gptq(w, h), sequential_obs(w, h)
    equal(tuple(got.scale.shape), (3, 1), what="shape of scale")
    check(got, expected)
    close(submission.dequantize(got, None), values(*expected), rtol=1e-9, dtype=FLOAT, what="values")


@needs("worked_example")
def test_beats_rounding(submission):
    """Correlated inputs of unequal size, four times: the loss is at most 0.65 of round-to-nearest's on the same grid
    rule, and act_order's at most 0.7 of the loss without it."""
    plain, ordered = [], []
    for _ in range(4):
        generator = seeded()
        h = second_moments(activations(512, 96, generator))
        w = draw_weights(48, 96, generator)
        nearest = loss(w, values(*rounded(w, 4)), h)
        natural = submission.gptq(w, h)
        by_size = submission.gptq(w, h, act_order=True)
        losses = [loss(w, values(q.codes, q.scale, q.zero), h) for q in (natural, by_size)]
        plain.append(losses[0] / nearest)
        ordered.append(losses[1] / losses[0])
    # Measured, means of four: at most 0.48 and 0.28.
    for ratios, limit, what in (
        (plain, 0.65, "the loss as a share of round-to-nearest's (mean of four)"),
        (ordered, 0.7, "act_order's loss as a share of the natural order's (mean of four)"),
    ):
        mean = sum(ratios) / 4
        require(mean <= limit, what, got=mean, expected=f"at most {limit}")


@given(
    out=integers(1, 5),
    n=integers(1, 40),
    bits=integers(2, 8),
    group_size=sampled_from((None, 5, 16, 64)),
    act_order=booleans(),
    size=sampled_from((1.0, 3.0)),
    seed=integers(0, 2**32 - 1),
    examples=10,
)
def test_identity_hessian(submission, out, n, bits, group_size, act_order, size, seed):
    """Uncorrelated inputs of one size, no damping: nothing to repair, so exactly round-to-nearest."""
    w = draw_weights(out, n, seeded(seed))
    h = size * torch.eye(n, dtype=FLOAT)
    got = submission.gptq(w, h, bits=bits, group_size=group_size, block=8, damp=0.0, act_order=act_order)
    check(got, rounded(w, bits, group_size))


@needs("equals_sequential_obs")
@points(3)
@given(
    n=integers(1, 60),
    group_size=sampled_from((1, 5, 16, 20, 32, 64)),
    block=sampled_from((1, 8, 16, 24, 128)),
    kind=sampled_from(WEIGHTS),
    seed=integers(0, 2**32 - 1),
    examples=10,
)
def test_groups(submission, n, group_size, block, kind, seed):
    """Groups that divide neither the columns nor the blocks: each grid comes from its weights as repaired so far."""
    generator = seeded(seed)
    w, h = draw_weights(3, n, generator, kind), second_moments(activations(2 * n + 8, n, generator))
    got = submission.gptq(w, h, bits=3, group_size=group_size, block=block)
    equal(tuple(got.scale.shape), (3, math.ceil(n / group_size)), what="shape of scale")
    check(got, sequential_obs(w, h, 3, group_size))


@needs("equals_sequential_obs")
@points(2)
@given(
    n=integers(1, 60),
    group_size=sampled_from((None, 5, 16, 20, 64)),
    block=sampled_from((1, 8, 24, 128)),
    equal_sizes=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=12,
)
def test_act_order_static(submission, n, group_size, block, equal_sizes, seed):
    """act_order: grids from the original weights, codes in the original order; of equal diagonals the lower index."""
    generator = seeded(seed)
    w, h = draw_weights(3, n, generator), second_moments(activations(2 * n + 8, n, generator))
    if equal_sizes:
        size = h.diagonal().sqrt()
        h = h / size[:, None] / size
        h.fill_diagonal_(1.0)
        h[1::3] *= 2.0
        h[:, 1::3] *= 2.0
    got = submission.gptq(w, h, bits=3, group_size=group_size, block=block, act_order=True)
    _, scale, zero = rounded(w, 3, group_size)
    close(got.scale, scale, rtol=1e-9, dtype=FLOAT, what="scale of the original weights")
    close(got.zero, zero, rtol=1e-12, dtype=FLOAT, what="zero of the original weights")
    check(got, sequential_obs(w, h, 3, group_size, act_order=True))


@needs("equals_sequential_obs")
@points(2)
@given(
    n=integers(3, 40),
    group_size=sampled_from((None, 8)),
    damp=sampled_from((0.01, 1.0)),
    act_order=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=9,
)
def test_dead_columns(submission, n, group_size, damp, act_order, seed):
    """Columns that no input uses become exactly 0, and disturb neither the grids nor the other columns."""
    generator = seeded(seed)
    w, x = draw_weights(4, n, generator), activations(2 * n + 8, n, generator) * 5.0
    dead = torch.randperm(n, generator=generator)[: max(1, n // 3)]
    alive = [j for j in range(n) if j not in dead]
    x[:, dead] = 0.0
    w[:, dead] *= 1000.0
    h = second_moments(x)
    got = submission.gptq(w, h, group_size=group_size, block=16, damp=damp, act_order=act_order)
    back = submission.dequantize(got, group_size)
    close(back[:, dead], torch.zeros(4, len(dead), dtype=FLOAT), rtol=0.0, what="the dead columns' values")
    check(got, sequential_obs(w, h, 4, group_size, damp, act_order))
    alone = submission.gptq(w[:, alive], h[alive][:, alive], damp=0.0, act_order=act_order)
    among = submission.gptq(w, h, damp=0.0, act_order=act_order)
    equal(among.codes[:, alive], alone.codes, what="the other columns' codes, damp 0")


@needs("equals_sequential_obs")
def test_damping(submission):
    """damp adds exactly damp * mean(diagonal) to the diagonal, so that a singular h works."""
    generator = seeded()
    n = 40
    w = draw_weights(8, n, generator)
    singular = second_moments(activations(9, n, generator))
    regular = second_moments(activations(200, n, generator))
    for h in (singular, regular):
        for damp in (0.1, 2.0):
            got = submission.gptq(w, h, damp=damp)
            check(got, sequential_obs(w, h, damp=damp), f", damp {damp}")
            shifted = h + damp * h.diagonal().mean() * torch.eye(n, dtype=FLOAT)
            equal(submission.gptq(w, shifted, damp=0.0).codes, got.codes, what=f"codes with damp {damp} put in by hand")
    check(submission.gptq(w, singular), sequential_obs(w, singular, damp=0.01), ", damp not given")


@needs("equals_sequential_obs")
def test_float32_weights(submission):
    """float32 weights with a float64 or float32 h: float32 results, a loss within 2 percent of float64's."""
    generator = seeded()
    n = 40
    x = activations(400, n, generator)
    h = second_moments(x)
    w = draw_weights(12, n, generator).float()
    for act_order, group_size in ((False, None), (False, 16), (True, 16)):
        best = loss(w, values(*sequential_obs(w, h, 4, group_size, act_order=act_order), group_size), h)
        for dtype in (torch.float64, torch.float32):
            got = submission.gptq(w, h.to(dtype), group_size=group_size, block=32, act_order=act_order)
            equal(got.codes.dtype, torch.uint8, what="dtype of codes")
            equal((got.scale.dtype, got.zero.dtype), (torch.float32,) * 2, what="dtypes of scale and zero")
            first = grid(w[:, :group_size].double(), 4)[0]
            close(got.scale[:, 0], first, rtol=1e-5, dtype=torch.float32, what="scale of the first group")
            back = submission.dequantize(got, group_size)
            equal(back.dtype, torch.float32, what="dtype of the values")
            ratio = loss(w, back, h) / best
            require(ratio <= 1.02, "the loss against float64's", got=ratio, expected="at most 1.02")


@given(
    out=integers(1, 4),
    n=integers(1, 40),
    group_size=sampled_from((None, 1, 7, 16, 64)),
    single=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=12,
)
def test_dequantize(submission, out, n, group_size, single, seed):
    """Codes of all sizes up to 255 turn into values with the grid of their own row and group."""
    generator = seeded(seed)
    dtype = torch.float32 if single else FLOAT
    groups = math.ceil(n / (group_size or n))
    codes = torch.randint(0, 256, (out, n), generator=generator).to(torch.uint8)
    scale = torch.rand(out, groups, generator=generator, dtype=dtype) + 0.1
    zero = torch.randint(0, 256, (out, groups), generator=generator).to(dtype)
    got = submission.dequantize(submission.Quantized(codes=codes, scale=scale, zero=zero), group_size)
    expected = values(codes, scale.double(), zero.double(), group_size)
    close(got, expected, rtol=1e-6 if single else 1e-12, dtype=dtype)


def test_hessian_streams(submission):
    """Batches of unequal sizes, from a list or a generator, equal one big batch; half precision is widened first."""
    generator = seeded()
    x = activations(60, 12, generator)
    expected = second_moments(x)
    pieces = list(x.split([1, 0, 17, 30, 12]))
    close(submission.hessian([x]), expected, rtol=1e-12, dtype=FLOAT, by="tensor", what="one batch")
    close(submission.hessian(pieces), expected, rtol=1e-12, dtype=FLOAT, by="tensor", what="a list of batches")
    stream = (strided(piece) for piece in pieces)
    close(submission.hessian(stream), expected, rtol=1e-12, dtype=FLOAT, by="tensor", what="a generator of batches")
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        large = (300.0 + 50.0 * torch.randn(40, 5, generator=generator)).to(dtype)
        got = submission.hessian(large.split([3, 37]))
        close(got, second_moments(large.double()), rtol=1e-12, dtype=FLOAT, by="tensor", what=f"{dtype} batches")
    with largest_temporary(submission) as cost:
        submission.hessian(iter(torch.randn(640, 16).split(32)))
    cost.at_most(32 * 16, "one batch; in * in is less")


@needs("worked_example")
def test_cost_factorisations(submission):
    """At most three factorisations, inversions or solves in all, however many columns there are."""
    generator = seeded()
    n = 40
    w, h = draw_weights(4, n, generator), second_moments(activations(100, n, generator))
    words = ("inv", "inverse", "cholesky", "lu", "ldl", "solve", "qr", "eig", "eigh", "svd", "lstsq")

    def factorises(name, elements):
        return any(word in name.removeprefix("aten.").split("_") for word in words)

    for act_order in (False, True):
        with dispatched(submission) as cost:
            submission.gptq(w, h, block=16, act_order=act_order)
        cost.count(factorises).at_most(3, "Cholesky, the inverse from it, Cholesky of the inverse")


@needs("worked_example")
def test_cost_lazy_updates(submission):
    """The columns behind a block are touched a few times per block, not once per column."""
    generator = seeded()
    out, n, block, group_size = 16, 128, 16, 16
    w, h = draw_weights(out, n, generator), second_moments(activations(200, n, generator))
    widest = out * max(block, group_size)
    with dispatched(submission) as cost:
        submission.gptq(w, h, block=block, group_size=group_size)
    wide = cost.count(lambda name, elements: elements > widest)
    wide.at_most(4 * n // block + 40, "results wider than block and group: 4 per block and 40 in all besides")
