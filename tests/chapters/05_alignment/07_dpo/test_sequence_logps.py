"""Hidden tests: sequence log-probs. Oracle: torch's cross_entropy in float64, each sequence alone and unpadded."""

import torch
import torch.nn.functional as F

from grader.testing import (
    booleans,
    close,
    counting,
    equal,
    given,
    integers,
    largest_temporary,
    points,
    raises,
    require,
    sampled_from,
)

WORKED = torch.zeros(1, 4, 3)
WORKED[0, 0, 1], WORKED[0, 1, 2], WORKED[0, 2, 0] = 1.0, 2.0, 3.0
WORKED_LABELS = torch.tensor([[-100, -100, 2, 0]])


def token_losses(logits, labels):
    """-log p of every scored token, 0 elsewhere: (B, T - 1), float64."""
    z, y = logits.double()[:, :-1], labels[:, 1:]
    return F.cross_entropy(z.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="none").view(y.shape)


def oracle(logits, labels, average=False):
    """(logps, counts) in float64."""
    counts = (labels[:, 1:] != -100).sum(1)
    sums = -token_losses(logits, labels).sum(1)
    return (sums / counts.clamp(min=1) if average else sums), counts


def scale_of(logits, labels):
    """What rounding errors are relative to: the size of all numbers that enter one sum."""
    finite = logits.detach().double().masked_fill(logits.detach() == -torch.inf, 0.0)
    return (1 + labels.shape[1]) * (4.0 + float(finite.abs().max()))


def pair(got):
    require(isinstance(got, tuple) and len(got) == 2, "not a tuple (logps, counts)", got=got)
    return got


def check(submission, logits, labels, average=False, atol=None):
    """Values, counts and dtypes of one call; returns logps."""
    wide = logits.dtype == torch.float64
    logps, counts = pair(submission.sequence_logps(logits, labels, average))
    expected, n = oracle(logits.detach(), labels, average)
    eps = 1e-15 if wide else 4e-7
    dtype = torch.float64 if wide else torch.float32
    atol = eps * scale_of(logits, labels) if atol is None else atol
    close(logps, expected, rtol=1e-10 if wide else 1e-6, atol=atol, dtype=dtype, what="logps")
    equal(counts, n, what="counts")
    return logps


def draw(seed, b, t, v, dtype=torch.float64, size=1.0, shift=0.0, valid=0.6):
    """Random logits and labels with -100 strewn in."""
    generator = torch.Generator().manual_seed(seed)
    logits = (size * torch.randn(b, t, v, generator=generator, dtype=torch.float64) + shift).to(dtype)
    labels = torch.randint(v, (b, t), generator=generator)
    labels[torch.rand(b, t, generator=generator) >= valid] = -100
    return logits, labels, generator


def ruled_out(logits, labels, generator):
    """-inf in some places: never for the token to be scored or the last token, always for token 0 if none is scored."""
    never = torch.rand(logits.shape, generator=generator) < 0.4
    following = F.pad(labels[:, 1:], (0, 1), value=-100)[..., None]
    never.scatter_(-1, following.clamp(min=0), following == -100)
    never[..., -1] = False
    return logits.masked_fill(never, -torch.inf)


@points(2)
def test_worked_example(submission):
    """One sequence of four tokens, two of them scored: sum, mean and count by hand."""
    logps, counts = pair(submission.sequence_logps(WORKED, WORKED_LABELS))
    close(logps, [-0.334468], rtol=3e-6, what="sum")
    equal(counts, torch.tensor([2]), what="counts")
    logps, _ = pair(submission.sequence_logps(WORKED, WORKED_LABELS, average=True))
    close(logps, [-0.167234], rtol=3e-6, what="mean")


@points(4)
@given(
    b=integers(1, 3),
    t=integers(1, 17),
    v=integers(1, 17),
    dtype=sampled_from((torch.float64, torch.float32)),
    size=sampled_from((1.0, 8.0)),
    shift=sampled_from((0.0, 1000.0)),
    average=booleans(),
    some_ruled_out=booleans(),
    contiguous=booleans(),
    seed=integers(0, 2**31 - 1),
    examples=40,
)
def test_matches_cross_entropy(submission, b, t, v, dtype, size, shift, average, some_ruled_out, contiguous, seed):
    """Sum, mean, counts and gradients against torch's cross_entropy on shifted tensors; -inf logits, any strides."""
    logits, labels, generator = draw(seed, b, t, v, dtype, size, shift)
    if some_ruled_out:
        logits = ruled_out(logits, labels, generator)
    if not contiguous:
        logits, labels = logits.permute(2, 1, 0).contiguous().permute(2, 1, 0), labels.T.contiguous().T
    logits.requires_grad_()
    logps = check(submission, logits, labels, average)
    weights = torch.randn(b, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights.to(logps.dtype) * logps).sum(), logits)
    exact = logits.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad((weights * oracle(exact, labels, average)[0]).sum(), exact)
    eps = 1e-14 if dtype == torch.float64 else 1e-6
    close(gradient, expected, rtol=1e-9 if dtype == torch.float64 else 1e-5, atol=eps * (10.0 + size + shift))


@points(1)
def test_label_at_position_zero(submission):
    """A label at place 0 is neither scored nor counted: there are no logits before it."""
    for t in (1, 2, 5):
        logits, labels, _ = draw(t, 3, t, 7, valid=1.0)
        check(submission, logits, labels)
        labels[1, 1:] = -100
        logps, counts = pair(submission.sequence_logps(logits, labels))
        require(counts[1] == 0 and logps[1] == 0.0, "the label at place 0 counts", got=(logps[1], counts[1]))
        labels[:, 0] = -100
        check(submission, logits, labels)
        check(submission, logits, labels, average=True)


@points(2)
def test_empty_row(submission):
    """Rows with nothing to score: logp 0, count 0, also averaged, and gradients of 0 rather than NaN."""
    for empty in ([1], [0, 1, 2]):
        for dtype in (torch.float32, torch.bfloat16):
            for average in (False, True):
                logits, labels, _ = draw(3, 3, 6, 9, dtype, valid=1.0)
                labels[empty] = -100
                logits.requires_grad_()
                logps = check(submission, logits, labels, average)
                require(bool((logps[empty] == 0).all()), "not exactly 0", got=logps)
                (gradient,) = torch.autograd.grad(logps.sum(), logits)
                require(bool(gradient.isfinite().all()), "a gradient is not finite", got=gradient)
                require(not gradient[empty].any(), "a row without labels has a gradient", got=gradient[empty])


@points(2)
def test_unscored_places_are_inert(submission):
    """Huge logits, and -inf for token 0, where nothing is scored: the result and the gradients are as before."""
    logits, labels, _ = draw(11, 4, 9, 6, torch.float32)
    unscored = F.pad(labels[:, 1:] == -100, (0, 1), value=True)
    expected, _ = oracle(logits, labels)
    other = logits.clone()
    other[unscored] = torch.tensor([-torch.inf, 3e4, -3e4, 1.0, -torch.inf, 0.0])
    other.requires_grad_()
    logps = check(submission, other, labels, atol=1e-5)
    close(logps, expected, rtol=1e-6, atol=1e-5)
    (gradient,) = torch.autograd.grad(logps.sum(), other)
    require(bool(gradient.isfinite().all()), "a gradient is not finite", got=gradient)
    require(not gradient[unscored].any(), "a place that is not scored has a gradient", got=gradient[unscored])


@points(1)
def test_unlikely_tokens(submission):
    """Scored tokens 30,000 below the others, and ruled out altogether: -30,000 and -inf, and no other row suffers."""
    for dtype in (torch.float32, torch.float64):
        for average in (False, True):
            for low in (-3e4, -torch.inf):
                logits, labels, _ = draw(17, 3, 5, 6, dtype, valid=1.0)
                logits[1, 2, labels[1, 3]] = low
                check(submission, logits, labels, average, atol=1e-2)


@points(3)
def test_low_precision(submission):
    """bfloat16 and float16 logits: float32 results, within 0.01 of float64 over 600 tokens, and a gradient."""
    for dtype in (torch.bfloat16, torch.float16):
        for size in (1.0, 4.0):
            logits, labels, _ = draw(5, 2, 601, 40, dtype, size, valid=1.0)
            check(submission, logits, labels, atol=1e-2)
            check(submission, logits, labels, average=True, atol=1e-4)
    logits.requires_grad_()
    logps, _ = pair(submission.sequence_logps(logits, labels))
    (gradient,) = torch.autograd.grad(logps.sum(), logits)
    exact = logits.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(oracle(exact, labels)[0].sum(), exact)
    # The two parts of a gradient, 1 - p, may meet in float16.
    eps = torch.finfo(torch.float16).eps
    close(gradient, expected, rtol=4e-3, atol=eps, dtype=torch.float16, what="gradient")


@points(1)
def test_labels_unchanged(submission):
    """Afterwards the labels still hold their -100, and the logits what they held."""
    for average in (False, True):
        logits, labels, _ = draw(7, 3, 8, 5, torch.float32)
        kept, kept_logits = labels.clone(), logits.clone()
        check(submission, logits, labels, average)
        equal(labels, kept, what="labels after the call")
        equal(logits, kept_logits, what="logits after the call")
        check(submission, logits, labels, average)


@points(1)
def test_shape_errors(submission):
    """Logits that are not (B, T, V), labels that are not (B, T) or fit other logits: ValueError."""
    for logits_shape, labels_shape in (
        ((2, 4, 5), (2, 3)),
        ((2, 4, 5), (3, 4)),
        ((2, 4, 5), (1, 4)),
        ((2, 4, 5), (4,)),
        ((4, 5), (4, 5)),
        ((4, 5), (4,)),
        ((2, 4, 5), (2, 4, 5)),
        ((2, 3, 4, 5), (2, 3)),
    ):
        with raises(ValueError):
            submission.sequence_logps(torch.zeros(logits_shape), torch.zeros(labels_shape, dtype=torch.int64))


def tiny_model(seed, vocab, dtype=torch.float64):
    """A model that looks everywhere where the mask is 1, also ahead: a wrong mask shows in every logit."""
    generator = torch.Generator().manual_seed(seed)
    embed, place, out = (torch.randn(n, m, generator=generator).double() for n, m in ((vocab, 6), (40, 6), (6, vocab)))

    def model(ids, mask):
        x = (embed[ids] + 0.5 * place[: ids.shape[1]]) * mask[..., None]
        everything = x.sum(1, keepdim=True) / mask.sum(1).clamp(min=1)[:, None, None]
        return ((x.cumsum(1) + everything).tanh() @ out).to(dtype)

    return model


def side(generator, b, t, vocab):
    """ids and labels with prompts, holes and padding of several lengths; any id may occur anywhere."""
    ids = torch.randint(vocab, (b, t), generator=generator)
    labels = ids.clone()
    labels[torch.rand(b, t, generator=generator) < 0.2] = -100
    for row in labels:
        start, end = sorted(torch.randint(0, t + 1, (2,), generator=generator).tolist())
        row[:start] = -100
        row[end:] = -100
    return ids, labels


def used(labels):
    """How many places there are up to the last label, per row."""
    return [max((t + 1 for t, y in enumerate(row) if y != -100), default=0) for row in labels.tolist()]


def alone(model, ids, labels, average):
    """Each sequence alone, cut off after its last label."""
    logps = torch.zeros(len(ids), dtype=torch.float64)
    for b, n in enumerate(used(labels)):
        if n:
            logits = model(ids[b : b + 1, :n], torch.ones(1, n, dtype=torch.int64))
            logps[b] = oracle(logits, labels[b : b + 1, :n], average)[0]
    return logps


@points(4)
@given(
    b=integers(1, 4),
    tc=integers(1, 17),
    tr=integers(1, 17),
    pad_id=sampled_from((0, 3, 7)),
    average=booleans(),
    dtype=sampled_from((torch.float64, torch.float32, torch.bfloat16)),
    seed=integers(0, 2**31 - 1),
    examples=25,
)
def test_concatenation_is_exact(submission, b, tc, tr, pad_id, average, dtype, seed):
    """Chosen and rejected of any lengths give what every sequence gives alone and unpadded; what the model is shown."""
    generator = torch.Generator().manual_seed(seed)
    chosen, rejected = side(generator, b, tc, 8), side(generator, b, tr, 8)
    model = counting(tiny_model(seed, 8, dtype))
    got = submission.concatenated_forward(model, chosen, rejected, pad_id, average)
    require(isinstance(got, tuple) and len(got) == 2, "not a tuple (chosen logps, rejected logps)", got=got)

    equal(model.calls, 1, what="calls of the model")
    (ids, mask), _ = model.arguments[0]
    t = max(tc, tr)
    places = torch.arange(t)
    lengths = torch.tensor(used(chosen[1]) + used(rejected[1]))
    equal(mask, (places < lengths[:, None]).long(), what="the mask that the model is given")
    expected_ids = torch.cat([F.pad(x, (0, t - x.shape[1]), value=pad_id) for x, _ in (chosen, rejected)])
    require(ids.shape == (2 * b, t), "ids given to the model: wrong shape", got=ids.shape, expected=(2 * b, t))
    padding = (ids == pad_id) & (mask == 0)
    equal(torch.where(padding, expected_ids, ids), expected_ids, what="the ids that the model is given")
    added = (places >= torch.tensor([tc] * b + [tr] * b)[:, None]) & (ids != pad_id)
    require(not added.any(), "a column that was added does not hold pad_id", got=ids, expected=expected_ids)

    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    result = torch.float64 if dtype == torch.float64 else torch.float32
    for name, logps, (x, y) in (("chosen", got[0], chosen), ("rejected", got[1], rejected)):
        expected = alone(tiny_model(seed, 8, dtype), x, y, average)
        # Each token's logits are rounded to bfloat16, and a sum of another order may round the other way.
        atol = 0.05 * t if dtype == torch.bfloat16 else tolerance * t
        close(logps, expected, rtol=tolerance, atol=atol, dtype=result, what=f"{name} logps")


@points(1)
def test_padding_content_is_irrelevant(submission):
    """Any ids after the last label: the same logps."""
    generator = torch.Generator().manual_seed(1)
    chosen, rejected = side(generator, 4, 12, 8), side(generator, 4, 7, 8)
    model = tiny_model(2, 8)
    first = submission.concatenated_forward(model, chosen, rejected, 0)
    for name, logps, (ids, labels) in zip(("chosen", "rejected"), first, (chosen, rejected), strict=True):
        close(
            logps,
            alone(model, ids, labels, False),
            rtol=1e-9,
            atol=1e-9,
            what=f"{name} logps, which are sums by default",
        )
    for filler in (0, 5, 7):
        sides = []
        for ids, labels in (chosen, rejected):
            padding = torch.arange(ids.shape[1]) >= torch.tensor(used(labels))[:, None]
            sides.append((ids.masked_fill(padding, filler), labels))
        again = submission.concatenated_forward(model, *sides, 5)
        for name, x, y in zip(("chosen", "rejected"), again, first, strict=True):
            close(x, y.detach(), rtol=1e-12, atol=1e-12, what=f"{name} logps with other padding")


class Trainer:
    """Lives beside the submission: gradients of a model's parameters do not travel."""

    def __init__(self, concatenated_forward):
        self.concatenated_forward = concatenated_forward

    def gradient(self, table, chosen, rejected, average, weights):
        import torch

        table = table.clone().requires_grad_()
        logps = self.concatenated_forward(lambda ids, mask: table[ids], chosen, rejected, 0, average)
        return torch.autograd.grad((torch.stack(logps) * weights).sum(), table)[0]


@points(1)
def test_model_gets_gradients(submission):
    """The logps carry gradients to the model's parameters, chosen and rejected alike: a table of bigram logits."""
    trainer = submission.prop(Trainer, submission.concatenated_forward)
    generator = torch.Generator().manual_seed(4)
    for tc, tr, average in ((9, 5, False), (4, 11, True)):
        chosen, rejected = side(generator, 3, tc, 6), side(generator, 3, tr, 6)
        table, weights = (
            torch.randn(6, 6, generator=generator).double(),
            torch.randn(2, 3, generator=generator).double(),
        )
        got = trainer.gradient(table, chosen, rejected, average, weights)
        table.requires_grad_()
        logps = torch.stack([oracle(table[x], y, average)[0] for x, y in (chosen, rejected)])
        loss = (logps * weights).sum()
        close(got, torch.autograd.grad(loss, table)[0], rtol=1e-9, atol=1e-12, what="gradient of the table")


@points(3)
def test_cost_largest_temporary(submission):
    """No second full-size tensor: at most one row's T * V elements, for float32 and for bfloat16 logits."""
    for b, t, v, dtype in ((8, 64, 4096, torch.float32), (8, 64, 1024, torch.bfloat16)):
        for valid in (1.0, 0.5):
            logits, labels, _ = draw(13, b, t, v, dtype, valid=valid)
            with largest_temporary(submission) as cost:
                submission.sequence_logps(logits, labels)
            cost.at_most(t * v, f"one row of T * V = {t} * {v} elements")


@points(2)
def test_cost_one_forward(submission):
    """The model is called exactly once per batch of pairs."""
    generator = torch.Generator().manual_seed(6)
    for b, tc, tr in ((1, 5, 5), (3, 8, 4), (2, 3, 9)):
        model = counting(tiny_model(b, 8))
        submission.concatenated_forward(model, side(generator, b, tc, 8), side(generator, b, tr, 8), 0)
        require(model.calls == 1, "calls of the model", got=model.calls, expected=1)
