"""Hidden tests: AWQ. Oracles: every candidate of both searches evaluated in float64, group by group."""

import torch

from grader.testing import (
    booleans,
    close,
    equal,
    flops,
    fresh,
    given,
    integers,
    largest_temporary,
    needs,
    points,
    raises,
    require,
    sampled_from,
)

FLOAT = torch.float64


def seeded(seed=None):
    return torch.Generator().manual_seed(int(torch.randint(0, 2**31, ())) if seed is None else seed)


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=FLOAT)


ACTIVATIONS = ("uneven", "few large tokens", "shifted", "dead channels")


def activations(tokens, n, generator, kind="uneven"):
    """Correlated inputs whose channels differ in size, but not in order of mean and largest value alike."""
    x = normal(tokens, n, generator=generator) @ (torch.eye(n) + 0.3 * normal(n, n, generator=generator))
    x = x * torch.exp(1.5 * normal(n, generator=generator))
    if kind == "few large tokens":
        x[0] *= torch.exp(2.0 * normal(n, generator=generator))
    elif kind == "shifted":
        x = x - 2.0 * normal(n, generator=generator).abs()
    elif kind == "dead channels":
        x[:, ::3] = 0.0
    return x


def lopsided(out, n, group, generator, other=0.45):
    """Weights that reach in each row and group to one side only `other` as far as to the other side: no candidate cuts
    both ends, where lo / scale would be a tie that the last bit decides."""
    w = normal(out, n, generator=generator)
    parts = []
    for part in w.split(group, dim=1):
        lo, hi = part.min(dim=1, keepdim=True).values, part.max(dim=1, keepdim=True).values
        part = torch.where(-lo > hi, -part, part)
        part = torch.where(part < 0, other * part, part)
        sign = torch.randint(0, 2, (out, 1), generator=generator) * 2 - 1
        parts.append(sign * part)
    return torch.cat(parts, dim=1)


def quantized(w, bits, group):
    """group_quantize in float64, a column group at a time."""
    parts = []
    for part in w.double().split(group, dim=1):
        lo, hi = part.min(dim=1, keepdim=True).values, part.max(dim=1, keepdim=True).values
        scale = ((hi - lo) / (2**bits - 1)).clamp(min=1e-5)
        zero = (-(lo / scale).round()).clamp(0, 2**bits - 1)
        parts.append((((part / scale).round() + zero).clamp(0, 2**bits - 1) - zero) * scale)
    return torch.cat(parts, dim=1)


def scales(x, alpha):
    s = (x.double().abs().mean(dim=0) ** alpha).clamp(min=1e-4)
    return s / (s.max() * s.min()).sqrt()


def scale_loss(weights, x, s, bits, group):
    x = x.double()
    return float(
        sum(((x / s @ quantized(w.double() * s, bits, group).T - x @ w.double().T) ** 2).mean() for w in weights)
    )


def clip_errors(w, x, bits, group, steps, max_shrink):
    """(clips, errors), each (candidates, out, groups)."""
    w, x = w.double(), x.double()
    clips, errors = [], []
    for i in range(int(max_shrink * steps)):
        clip, error = [], []
        for part, inputs in zip(w.split(group, dim=1), x.split(group, dim=1), strict=True):
            limit = part.abs().max(dim=1).values * (1 - i / steps)
            q = quantized(torch.minimum(torch.maximum(part, -limit[:, None]), limit[:, None]), bits, group)
            clip.append(limit)
            error.append((inputs @ (q - part).T).square().mean(dim=0))
        clips.append(torch.stack(clip, dim=1))
        errors.append(torch.stack(error, dim=1))
    return torch.stack(clips), torch.stack(errors)


def clipped(w, clip, group):
    limit = clip.double().repeat_interleave(group, dim=1)
    return torch.minimum(torch.maximum(w.double(), -limit), limit)


def output_error(x, w, other):
    return float((x @ (w - other).T).square().mean())


def several(n, generator):
    """Three matrices of different height whose errors are about as large."""
    return [size * normal(out, n, generator=generator) for size, out in ((1.5, 2), (1.2, 4), (1.0, 16))]


def strided(x):
    """The same values in memory that is not contiguous."""
    apart = torch.zeros(2 * x.shape[1] + 1, 2 * x.shape[0] + 1, dtype=x.dtype)
    inner = apart.T[1::2, 1::2]
    inner.copy_(x)
    return inner


def test_worked_example(submission):
    """Two groups on the grid of 2 bits; the scales that the mean activations [1, 4, 16, 4] give; a fold."""
    w = torch.tensor([[-1.0, 0.4, 0.6, 2.0, 1.0, 1.3, 1.75, 4.0]], dtype=FLOAT)
    # lo -1, hi 2: scale 1, zero 1. The second group has no 0 in it: lo 1, hi 4, scale 1, zero 0 (not -1).
    close(submission.group_quantize(w, 2, 4), [[-1.0, 0.0, 1.0, 2.0, 1.0, 1.0, 2.0, 3.0]], dtype=FLOAT)
    x = torch.tensor([[1.0, -4.0, 16.0, 0.0], [-1.0, 4.0, 16.0, 8.0]], dtype=FLOAT)
    weights = [torch.tensor([[0.3, -0.55, 1.0, 0.2], [-0.7, 0.45, -0.35, 1.2]], dtype=FLOAT)]
    losses = [scale_loss(weights, x, scales(x, i / 4), 2, 4) for i in range(4)]
    best = min(range(4), key=losses.__getitem__)
    s, alpha = submission.search_scale(weights, x, bits=2, group=4, grid=4)
    close(alpha, best / 4, what="alpha")
    close(s, scales(x, best / 4), rtol=1e-9, dtype=FLOAT, what="s")
    norm, folded = submission.fold(torch.tensor([3.0, 5.0]), [torch.tensor([[1.0, 2.0]])], torch.tensor([2.0, 0.5]))
    close(norm, [1.5, 10.0], dtype=torch.float32, what="folded norm weight")
    close(folded, [[[2.0, 1.0]]], dtype=torch.float32, what="folded matrices")


@given(
    out=integers(1, 5),
    groups=integers(1, 4),
    group=sampled_from((2, 3, 16, 32)),
    bits=integers(1, 8),
    shift=sampled_from((0.0, 2.0, -2.0)),
    size=sampled_from((1.0, 1e-5, 100.0)),
    single=booleans(),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=16,
)
def test_group_quantize(submission, out, groups, group, bits, shift, size, single, contiguous, seed):
    """Any number of bits and groups; groups on one side of 0, where zero is clamped; tiny and constant groups."""
    w = (normal(out, groups * group, generator=seeded(seed)) * 0.5 + shift) * size
    w[0, :group] = w[0, 0]
    dtype = torch.float32 if single else FLOAT
    w = w.to(dtype)
    got = submission.group_quantize(w if contiguous else strided(w), bits, group)
    expected = quantized(w, bits, group)
    if single:  # a rounding may fall the other way: then by one step of the grid, and rarely
        close(got, expected, rtol=1e-5, atol=1.01 * float(w.max() - w.min()) / (2**bits - 1) + 2e-5, dtype=dtype)
        near = (got.double() - expected).abs() <= 1e-5 * expected.abs().max()
        share = float(near.double().mean())
        require(share >= 0.75, "share of entries on the grid value that float64 finds", got=share, expected=">= 0.75")
    else:
        close(got, expected, rtol=1e-9, dtype=dtype)


def test_groups_must_divide(submission):
    """A number of columns that the group does not divide: ValueError from all three."""
    w, x = torch.ones(2, 12, dtype=FLOAT), torch.ones(3, 12, dtype=FLOAT)
    for group in (5, 8, 24):
        with raises(ValueError):
            submission.group_quantize(w, 4, group)
        with raises(ValueError):
            submission.search_scale([w], x, group=group)
        with raises(ValueError):
            submission.search_clip(w, x, group=group)


@needs("worked_example")
@points(3)
@given(
    matrices=sampled_from((1, 3)),
    groups=integers(1, 3),
    group=sampled_from((4, 7, 16)),
    bits=integers(2, 4),
    grid=sampled_from((20, 7, 1)),
    tokens=sampled_from((1, 9, 30)),
    kind=sampled_from(ACTIVATIONS),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=14,
)
def test_matches_grid_oracle(submission, matrices, groups, group, bits, grid, tokens, kind, contiguous, seed):
    """alpha and s of the best of all candidates in float64, for one matrix and for three that share the input."""
    generator = seeded(seed)
    n = groups * group
    x = activations(tokens, n, generator, kind)
    weights = several(n, generator)[:matrices]
    losses = [scale_loss(weights, x, scales(x, i / grid), bits, group) for i in range(grid)]
    best = min(range(grid), key=losses.__getitem__)
    arrange = (lambda t: t) if contiguous else strided
    s, alpha = submission.search_scale([arrange(w) for w in weights], arrange(x), bits=bits, group=group, grid=grid)
    close(alpha, best / grid, rtol=1e-9, what="alpha")
    close(s, scales(x, best / grid), rtol=1e-9, dtype=FLOAT, by="element", what="s")


@needs("matches_grid_oracle")
def test_every_matrix_counts(submission):
    """Six inputs that three matrices of different height share: all count, each by its own mean."""
    for kind in ("uneven", "shifted", "dead channels") * 2:
        generator = seeded()
        x, weights = activations(25, 32, generator, kind), several(32, generator)
        losses = [scale_loss(weights, x, scales(x, i / 20), 3, 16) for i in range(20)]
        _, alpha = submission.search_scale(weights, x, bits=3, group=16)
        close(alpha, losses.index(min(losses)) / 20, rtol=1e-9, what="alpha")


@needs("worked_example")
def test_float32_and_defaults(submission):
    """float32 inputs, arguments left out (4 bits, groups of 128, 20 candidates): as good as the best in float64."""
    generator = seeded()
    x = activations(40, 256, generator).float()
    weights = (lopsided(24, 256, 128, generator).float(), normal(8, 256, generator=generator).float())
    s, alpha = submission.search_scale(weights, x)
    at = round(alpha * 20)
    close(alpha, at / 20, rtol=1e-9, what="alpha: a multiple of 1/20")
    close(s, scales(x, at / 20), rtol=1e-4, dtype=torch.float32, by="element", what="s at this alpha")
    losses = [scale_loss(weights, x, scales(x, i / 20), 4, 128) for i in range(20)]
    require(losses[at] <= 1.001 * min(losses), "the loss at this alpha", got=losses[at], expected=min(losses))
    clip = submission.search_clip(weights[0], x)
    equal((clip.dtype, tuple(clip.shape)), (torch.float32, (24, 2)), what="dtype and shape of the clip values")
    clips, errors = clip_errors(weights[0], x, 4, 128, 20, 0.5)
    distance, chosen = (clips - clip.double()).abs().min(dim=0)
    require(bool((distance <= 1e-5 * clips[0]).all()), "every clip value is one of the ten candidates", got=clip)
    of_chosen = errors.gather(0, chosen[None])[0]
    # float32 may round a weight to the other neighbour, and in such a group another candidate may win.
    share = float((of_chosen <= 1.001 * errors.min(dim=0).values).double().mean())
    require(share >= 0.8, "share of clip values that are the best in float64", got=share, expected="at least 0.8")


@needs("worked_example")
def test_salient_channels(submission):
    """4 of 128 channels 30 times larger, four times: at most 0.4 of plain rounding's error, alpha from 0.2 to 0.8."""
    ratios = []
    for _ in range(4):
        generator = seeded()
        x, w = normal(128, 128, generator=generator), normal(64, 128, generator=generator)
        x[:, torch.randperm(128, generator=generator)[:4]] *= 30.0
        s, alpha = submission.search_scale([w], x, group=32)
        require(0.2 <= alpha <= 0.8, "alpha", got=alpha, expected="from 0.2 to 0.8")
        plain = scale_loss([w], x, torch.ones(128, dtype=FLOAT), 4, 32)
        ratios.append(scale_loss([w], x, s, 4, 32) / plain)
    mean = sum(ratios) / 4  # measured: single ones 0.17 to 0.33
    require(mean <= 0.4, "the error as a share of plain rounding's (mean of four)", got=mean, expected="at most 0.4")


@needs("worked_example")
def test_flat_activations(submission):
    """All channels have one mean absolute activation: s = 1, and plain rounding's error. No activation: alpha 0."""
    generator = seeded()
    sizes = normal(24, generator=generator)
    x = torch.stack([sizes[torch.randperm(24, generator=generator)] for _ in range(32)], dim=1)
    w = normal(12, 32, generator=generator)
    s, _ = submission.search_scale([w], x, group=16)
    close(s, torch.ones(32, dtype=FLOAT), rtol=1e-5, dtype=FLOAT, what="s")
    plain = scale_loss([w], x, torch.ones(32, dtype=FLOAT), 4, 16)
    close(scale_loss([w], x, s, 4, 16), plain, rtol=1e-3, what="loss at s")
    s, alpha = submission.search_scale([w], torch.zeros(5, 32, dtype=FLOAT), group=16)
    close(alpha, 0.0, what="alpha where all candidates lose nothing")
    close(s, torch.ones(32, dtype=FLOAT), dtype=FLOAT, what="s where nothing is active")


@needs("worked_example")
def test_dead_channel(submission):
    """A channel without activation: s is finite, positive and the best candidate's."""
    generator = seeded()
    for dead in (slice(3, 4), slice(0, 16)):
        x, w = activations(30, 32, generator), normal(6, 32, generator=generator)
        x[:, dead] = 0.0
        losses = [scale_loss([w], x, scales(x, i / 20), 3, 16) for i in range(20)]
        best = min(range(20), key=losses.__getitem__)
        s, alpha = submission.search_scale([w], x, bits=3, group=16)
        require(bool((torch.isfinite(s) & (s > 0)).all()), "s is finite and positive", got=s)
        close(alpha, best / 20, rtol=1e-9, what="alpha")
        close(s, scales(x, best / 20), rtol=1e-9, dtype=FLOAT, by="element", what="s")
        clip = submission.search_clip(w, x, bits=3, group=16)
        require(bool((torch.isfinite(clip) & (clip > 0)).all()), "clip values are finite and positive", got=clip)


@points(3)
@given(
    out=integers(1, 5),
    groups=integers(1, 4),
    group=sampled_from((4, 7, 16)),
    bits=integers(2, 4),
    steps=sampled_from((20, 8)),
    max_shrink=sampled_from((0.5, 0.25, 1.0)),
    kind=sampled_from(("uneven", "shifted")),
    contiguous=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=15,
)
def test_clip_by_brute_force(submission, out, groups, group, bits, steps, max_shrink, kind, contiguous, seed):
    """float64: the clip value of each row and group is the best of all candidates for its own partial output."""
    generator = seeded(seed)
    w = lopsided(out, groups * group, group, generator, 0.45 if max_shrink <= 0.5 else 0.0)
    x = activations(20, groups * group, generator, kind)
    clips, errors = clip_errors(w, x, bits, group, steps, max_shrink)
    expected = clips.gather(0, errors.argmin(dim=0)[None])[0]
    arrange = (lambda t: t) if contiguous else strided
    got = submission.search_clip(arrange(w), arrange(x), bits=bits, group=group, steps=steps, max_shrink=max_shrink)
    close(got, expected, rtol=1e-9, dtype=FLOAT, by="element")


def test_clip_ties(submission):
    """Where all candidates are equally good (no weights, or inputs that are 0) the first is kept: the whole range."""
    generator = seeded()
    w, x = normal(3, 24, generator=generator), normal(10, 24, generator=generator)
    w[1, :8] = 0.0
    x[:, 16:] = 0.0
    got = submission.search_clip(w, x, bits=3, group=8)
    close(got[1, 0], torch.zeros((), dtype=FLOAT), rtol=0.0, dtype=FLOAT, what="clip value of a group of zeros")
    close(got[:, 2], w[:, 16:].abs().amax(dim=1), rtol=1e-12, dtype=FLOAT, what="clip values of inputs that are 0")


@needs("clip_by_brute_force")
def test_clip_helps(submission):
    """A large outlier in each group, four times: the output error falls; with one group per row it never rises."""
    several, single = [], []
    for _ in range(4):
        generator = seeded()
        w, x = normal(16, 64, generator=generator).clamp(-3.0, 3.0), normal(64, 64, generator=generator)
        w[:, ::16] = 6.0
        for group, ratios in ((16, several), (64, single)):
            clip = submission.search_clip(w, x, bits=3, group=group)
            before = output_error(x, w, quantized(w, 3, group))
            ratios.append(output_error(x, w, quantized(clipped(w, clip, group), 3, group)) / before)
    require(max(single) <= 1.0, "one group: error after clipping over error before", got=single, expected="at most 1")
    for ratios, limit in ((several, 0.99), (single, 0.97)):  # measured, single ones: 0.83 to 1.01 and 0.82 to 0.95
        mean = sum(ratios) / 4
        require(mean <= limit, "error after clipping over error before (mean)", got=mean, expected=f"at most {limit}")


@given(
    tokens=integers(1, 9),
    n=integers(1, 20),
    matrices=integers(1, 3),
    seed=integers(0, 2**32 - 1),
    examples=10,
)
def test_fold_is_exact(submission, tokens, n, matrices, seed):
    """RMSNorm and the matrices behind it compute what they did; the results are new tensors."""
    generator = seeded(seed)
    x, gain = normal(tokens, n, generator=generator), normal(n, generator=generator)
    s = torch.exp(normal(n, generator=generator))
    weights = [normal(out, n, generator=generator) for out in (4, 1, 6)[:matrices]]
    result = submission.fold(gain, weights, s)
    fresh(result)
    norm, folded = result
    equal(len(folded), matrices, what="number of matrices")
    before = torch.nn.functional.rms_norm(x, (n,), gain, 1e-6)
    after = torch.nn.functional.rms_norm(x, (n,), norm, 1e-6)
    for w, new in zip(weights, folded, strict=True):
        close(new, w * s, rtol=1e-12, dtype=FLOAT, what="the folded matrix")
        close(after @ new.T, before @ w.T, rtol=1e-10, dtype=FLOAT, by="tensor", what="the layer's output")


@needs("worked_example")
def test_cost_search_scale(submission):
    """At most grid + 1 products of the size of x W^T for each matrix."""
    tokens, n = 64, 32
    x = torch.randn(tokens, n)
    weights = [torch.randn(48, n), torch.randn(32, n)]
    for grid in (20, 6):
        with flops(submission) as cost:
            submission.search_scale(weights, x, group=16, grid=grid)
        cost.at_most((grid + 1) * 2 * tokens * n * (48 + 32), "x W^T once, and once for each candidate")


@needs("clip_by_brute_force")
def test_cost_search_clip(submission):
    """No tensor with an axis for the candidates beside rows, groups and tokens or columns."""
    for tokens, out, n, group in ((64, 32, 64, 16), (8, 64, 128, 32)):
        w, x = torch.randn(out, n), torch.randn(tokens, n)
        with largest_temporary(submission) as cost:
            submission.search_clip(w, x, group=group)
        cost.at_most(tokens * out * n // group + n * out, "tokens * out * groups + in * out")
