"""Hidden tests: SmoothQuant scales, their folding, and the int8 product."""

import torch

from grader.testing import (
    close,
    equal,
    floats,
    fresh,
    given,
    integers,
    largest_temporary,
    lists,
    needs,
    points,
    raises,
    require,
    sampled_from,
)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def correlated(tokens, n, g, outliers=0):
    """Activations whose neighbouring channels resemble each other; a few channels may be 30 times larger."""
    x = torch.randn(tokens, n, generator=g)
    x = x + 0.5 * x.roll(1, 1)
    if outliers:
        x[:, torch.randperm(n, generator=g)[:outliers]] *= 30
    return x


def formula(act_absmax, weights, alpha):
    """The scales in float64, the bound and the dead channels included."""
    a = act_absmax.double()
    w = torch.cat([w.double() for w in weights]).abs().amax(0)
    s = (a**alpha / w ** (1 - alpha)).clamp(min=1e-5)
    return torch.where((a == 0) | (w == 0), 1.0, s)


def exactly(got, expected, what):
    """Every element equal; 0.0 and -0.0 are one number."""
    close(got, expected, rtol=0.0, dtype=torch.float32, by="element", what=what)


def strided(x):
    """The same values in memory that is not contiguous."""
    apart = torch.full((x.shape[1], 2 * x.shape[0] + 1), 99.0, dtype=x.dtype)
    apart[:, 1::2] = x.T
    return apart[:, 1::2].T


@points(2)
def test_worked_example(submission):
    """Activation maxima 4, 36, 1 and weight maxima 1, 0.25, 4, by hand."""
    act_absmax = torch.tensor([4.0, 36.0, 1.0])
    w = torch.tensor([[1.0, 0.125, -4.0], [0.5, -0.25, 2.0], [-0.75, 0.125, 1.0]])
    close(submission.smooth_scale(act_absmax, [w]), [2.0, 12.0, 0.5], rtol=1e-5, by="element")
    close(submission.smooth_scale(act_absmax, [w], 1.0), [4.0, 36.0, 1.0], rtol=1e-5, by="element")
    close(submission.smooth_scale(act_absmax, [w], alpha=0.0), [1.0, 4.0, 0.25], rtol=1e-5, by="element")


@points(2)
@given(
    n=integers(1, 40),
    rows=lists(integers(1, 40), n=(1, 4)),
    alpha=floats(0.0, 1.0),
    dtype=sampled_from([torch.float32, torch.float16, torch.float64]),
    seed=integers(0, 10_000),
)
def test_matches_formula(submission, n, rows, alpha, dtype, seed):
    """Any alpha, any number of matrices and dtype: the formula in float64, the maxima taken over all matrices."""
    g = generator(seed)
    act_absmax = torch.exp(3 * torch.randn(n, generator=g))
    columns = torch.exp(1.5 * torch.randn(n, generator=g))
    weights = [(torch.randn(out, n, generator=g) * columns).to(dtype) for out in rows]
    got = submission.smooth_scale(act_absmax, tuple(weights) if seed % 2 else weights, alpha)
    close(got, formula(act_absmax, weights, alpha), rtol=1e-5, by="element", dtype=torch.float32)


def test_square_and_shared(submission):
    """Square matrices of unlike rows and columns; the largest weight of a column sits in the first, second or third."""
    weights = [torch.randn(12, 12) * torch.exp(torch.randn(12, 1)) * torch.exp(torch.randn(12)) for _ in range(3)]
    act_absmax = torch.exp(2 * torch.randn(12))
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0,), (2,)):
        chosen = [weights[i] for i in order]
        for alpha in (0.5, 0.75):
            got = submission.smooth_scale(act_absmax, chosen, alpha)
            close(got, formula(act_absmax, chosen, alpha), rtol=1e-5, by="element", dtype=torch.float32)


@points(2)
def test_equal_maxima(submission):
    """At alpha 0.5 the smoothed activations and the smoothed weights have the same maximum in each channel."""
    for seed in range(3):
        g = generator(seed)
        x = correlated(50, 33, g, outliers=3)
        weights = [torch.randn(out, 33, generator=g) * torch.exp(torch.randn(33, generator=g)) for out in (20, 45)]
        s = submission.smooth_scale(x.abs().amax(0), weights)
        close(s, formula(x.abs().amax(0), weights, 0.5), rtol=1e-5, by="element", dtype=torch.float32)
        smoothed = (x.double() / s.double()).abs().amax(0)
        weight = torch.cat([w.double() * s.double() for w in weights]).abs().amax(0)
        close(weight, smoothed, rtol=2e-5, by="element", what="the maxima of the smoothed weights")


@points(2)
def test_calibration(submission):
    """A running maximum of absolute values over batches of any length, dtype and stride, from a list or a generator."""
    equal(submission.calibrate([torch.tensor([[1.0, -3.0], [-2.0, 2.5]])]), torch.tensor([2.0, 3.0]))
    x = torch.cat([torch.randn(40, 17), torch.randn(30, 17) - 4.0, torch.randn(7, 17) + 2.0])
    for dtype in FLOATS:
        values = x.to(dtype)
        expected = values.abs().amax(0).float()
        for lengths in ([77], [1, 40, 36], [30, 7, 39, 1]):
            batches = list(values.split(lengths))
            equal(submission.calibrate(batches), expected, what=f"{dtype} in batches of {lengths}")
            equal(submission.calibrate(b for b in batches[::-1]), expected, what="from a generator, in reverse")
        equal(submission.calibrate(tuple(strided(b) for b in values.split(30))), expected, what="strided batches")
    equal(submission.calibrate(iter([torch.zeros(3, 4), torch.zeros(1, 4)])), torch.zeros(4))
    for nothing in ([], iter(())):
        with raises(ValueError):
            submission.calibrate(nothing)


@points(2)
def test_zero_channels(submission):
    """Channels that no token or no weight uses get exactly 1, for every alpha; nothing becomes inf or NaN."""
    act_absmax = torch.tensor([0.0, 4.0, 0.0, 9.0, 1e-3])
    for weights in (
        [torch.tensor([[1.0, 0.0, 0.0, -2.0, 5.0], [3.0, 0.0, 0.0, 1.0, -8.0]])],
        [torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0]]), torch.tensor([[0.5, -0.0, 0.0, -2.0, 0.0], [0.0, 0, 0, 0, 8.0]])],
    ):
        for alpha in (0.0, 0.3, 0.5, 1.0):
            got = submission.smooth_scale(act_absmax, weights, alpha)
            close(got, formula(act_absmax, weights, alpha), rtol=1e-5, by="element", dtype=torch.float32)
            equal(got[:3], torch.ones(3), what="dead channels")


def test_bounded_below(submission):
    """s is at least 1e-5; a tiny maximum itself is used as it is."""
    act_absmax = torch.tensor([1e-14, 1e-7, 1e-9, 1.0, 1e-7])
    w = torch.tensor([[1.0, 1.0, -1e4, 1e-9, 1e-6]])
    for alpha in (0.5, 0.25, 1.0, 0.0):
        got = submission.smooth_scale(act_absmax, [w], alpha)
        close(got, formula(act_absmax, [w], alpha), rtol=1e-5, by="element", dtype=torch.float32)


@points(2)
def test_function_preserved(submission):
    """LayerNorm with bias, or RMSNorm without, then three linear layers in float64: outputs unchanged to 1e-10."""
    n = 24
    x = 3 * torch.randn(10, n, dtype=torch.float64) + 1
    g, b = torch.randn(n, dtype=torch.float64) + 2, 2 * torch.randn(n, dtype=torch.float64)
    weights = [torch.randn(out, n, dtype=torch.float64) for out in (5, 24, 1)]
    s = torch.exp(2 * torch.randn(n))
    for bias in (b, None):
        new_g, new_bias, new_weights = submission.smooth(g, bias, weights if bias is None else tuple(weights), s)
        require(type(new_weights) is list and len(new_weights) == 3, "a list of three matrices", got=new_weights)
        if bias is None:
            require(new_bias is None, "no bias stays no bias", got=new_bias)
            normalised = torch.nn.functional.rms_norm(x, (n,))
            before, after = normalised * g, normalised * new_g
        else:
            before = torch.nn.functional.layer_norm(x, (n,), g, bias)
            after = torch.nn.functional.layer_norm(x, (n,), new_g, new_bias)
        close(after, before / s.double(), rtol=1e-10, what="the norm's output")
        for new, old in zip(new_weights, weights, strict=True):
            close(after @ new.T, before @ old.T, rtol=1e-10, what="a layer's output")


def test_folded_copies(submission):
    """New tensors in the dtypes of the old, also where s is 1 everywhere."""
    for dtype in (torch.float16, torch.float32, torch.float64):
        g, b = torch.randn(7).to(dtype), torch.randn(7).to(dtype)
        weights = [torch.randn(out, 7).to(dtype) for out in (4, 7)]
        for s in (torch.ones(7), torch.exp(torch.randn(7))):
            for bias in (b, None):
                got = submission.smooth(g, bias, weights, s)
                fresh(got)
                close(got[0], g.double() / s.double(), dtype=dtype, by="element", what="norm_weight")
                if bias is not None:
                    close(got[1], b.double() / s.double(), dtype=dtype, by="element", what="norm_bias")
                require(len(got[2]) == 2, "as many matrices as before", got=len(got[2]), expected=2)
                for new, old in zip(got[2], weights, strict=True):
                    close(new, old.double() * s.double(), dtype=dtype, by="element", what="weights")


@points(3)
def test_integer_exact(submission):
    """Rows whose largest entry is 127 have scale 1, and the output is the integer sum, overflowing nowhere."""
    for tokens, out, n in [(1, 1, 1), (3, 5, 17), (4, 2, 4096), (16, 9, 129)]:
        x, w = torch.randint(-127, 128, (tokens, n)), torch.randint(-127, 128, (out, n))
        x[:, 0], w[:, -1] = 127, -127
        exactly(submission.w8a8_linear(x.float(), w.float()), (x @ w.T).float(), f"in = {n}")
    # Sums of up to 66 million: float32 counts in steps of 4 there, so running float32 sums go astray.
    x, w = torch.randint(100, 128, (3, 4096)), torch.randint(101, 128, (4, 4096))
    x[:, 7], w[:, 9] = 127, 127
    exactly(submission.w8a8_linear(x.float(), w.float()), (x @ w.T).float(), "sums beyond 2**24")
    full = torch.full((2, 4096), 127.0)
    exactly(submission.w8a8_linear(full, -full), torch.full((2, 2), -66064384.0), "4096 times 127 * -127")


@points(2)
@given(
    tokens=integers(1, 9),
    out=integers(1, 9),
    n=integers(1, 130),
    layout=sampled_from(["contiguous", "strided"]),
    seed=integers(0, 10_000),
)
def test_scales_per_row(submission, tokens, out, n, layout, seed):
    """A scale for each token and each output channel: rows a thousand times apart are all exact to 1e-6."""
    g = generator(seed)

    def rows(count):
        """Rows that are `scale * (code + something below 0.4)`: clear of the points where rounding tips over."""
        codes = torch.randint(-126, 127, (count, n), generator=g)
        peaks = torch.randint(0, n, (count,), generator=g)
        codes[torch.arange(count), peaks] = 127 * (1 - 2 * torch.randint(0, 2, (count,), generator=g))
        scale = torch.exp(3 * torch.randn(count, 1, generator=g, dtype=torch.float64))
        between = 0.8 * torch.rand(count, n, generator=g, dtype=torch.float64) - 0.4
        between[torch.arange(count), peaks] = 0
        values = ((codes + between) * scale).float()
        return (strided(values) if layout == "strided" else values), codes, values.double().abs().amax(1) / 127

    (x, code_x, scale_x), (w, code_w, scale_w) = rows(tokens), rows(out)
    expected = (code_x @ code_w.T).double() * scale_x[:, None] * scale_w
    close(submission.w8a8_linear(x, w), expected, rtol=1e-6, by="element", dtype=torch.float32)


@points(2)
def test_rounding_and_zeros(submission):
    """Halves go to even, a row of zeros has scale 1, and codes that sum to 0 give exactly 0."""
    x = torch.tensor(
        [[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49, -126.5], [-127.0, 3.5, 4.5, -2.5, -3.5, 0.51, 7.0, 99.5]]
    )
    codes = torch.tensor([[127, 0, 2, 2, 0, -2, 0, -126], [-127, 4, 4, -2, -4, 1, 7, 100]]).float()
    unit = 127.0 * torch.eye(8)
    exactly(submission.w8a8_linear(x, unit), 127 * codes, "codes of x, times 127")
    exactly(submission.w8a8_linear(unit, x), 127 * codes.T, "codes of w, times 127")
    tiny = 2.0**-30
    exactly(submission.w8a8_linear(tiny * x, unit), tiny * 127 * codes, "tiny rows are quantised as others are")
    x[1] = 0.0
    got = submission.w8a8_linear(x, torch.cat([unit, torch.zeros(1, 8)]))
    codes[1] = 0.0
    exactly(got, torch.cat([127 * codes, torch.zeros(2, 1)], 1), "with rows of zeros")
    # Every pair of columns cancels: 3 * 5 - 5 * 3, on scales that are no powers of 2.
    a, b = torch.randint(-126, 127, (2, 6, 40)).float()
    a[:, 0], b[:, 0] = 127, 126
    x, w = torch.stack([a, -b], -1).flatten(1), torch.stack([b, a], -1).flatten(1)
    got = submission.w8a8_linear(0.013 * x, 0.37 * w)
    exactly(got.diagonal(), torch.zeros(6), "sums of codes that cancel")


@points(3)
@needs("worked_example")
def test_error_falls(submission):
    """Four channels 30 times larger: smoothing brings the W8A8 error to at most 0.4 of what it was."""
    for seed in range(4):
        g = generator(seed)
        x = correlated(64, 128, g, outliers=4)
        weights = [torch.randn(out, 128, generator=g) * 128**-0.5 for out in (48, 64, 24)]
        s = submission.smooth_scale(submission.calibrate(list(x.split(20))), weights)
        norm, _, smoothed = submission.smooth(torch.ones(128), None, weights, s)
        before = after = 0.0
        for old, new in zip(weights, smoothed, strict=True):
            y = x.double() @ old.double().T
            before += float((submission.w8a8_linear(x, old).double() - y).pow(2).sum())
            after += float((submission.w8a8_linear(x * norm, new).double() - y).pow(2).sum())
        ratio = (after / before) ** 0.5
        require(ratio <= 0.4, "error after smoothing, as a share of before", got=round(ratio, 3), expected="<= 0.4")


@points(2)
def test_cost_calibrate_keeps_a_row(submission):
    """300 batches of 4 tokens: no tensor is made that is larger than two batches."""
    batches = [torch.randn(4, 16) for _ in range(300)]
    with largest_temporary(submission) as cost:
        got = submission.calibrate(batch for batch in batches)
    equal(got, torch.cat(batches).abs().amax(0))
    cost.at_most(2 * 4 * 16, "two batches of 4 tokens, 16 channels")
