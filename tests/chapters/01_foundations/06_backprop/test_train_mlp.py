"""Hidden tests: initialisation, minibatches, SGD. Oracles: formulas, statistics, torch's autograd, reached accuracy."""

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from grader.testing import (
    close,
    frequencies_match,
    given,
    integers,
    points,
    raises,
    require,
    sampled_from,
)

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "linear": lambda z: z}


def spiral(rng, per_arm=100, arms=3):
    """Three arms that wind around each other by four radians, with noise in the angle: far from linearly separable."""
    radius = np.tile(np.linspace(0.05, 1.0, per_arm), arms)
    arm = np.repeat(np.arange(arms), per_arm)
    angle = 2.0 * np.pi * arm / arms + 4.0 * radius + 0.1 * rng.standard_normal(arms * per_arm)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), arm


def random_params(rng, sizes):
    return [(rng.standard_normal((b, a)) / a**0.5, rng.standard_normal(b)) for a, b in pairwise(sizes)]


def layers(got, sizes):
    """The parameters, after a look at their types and shapes."""
    require(isinstance(got, list) and len(got) == len(sizes) - 1, "not a list with one item per layer", got=got)
    for layer, (item, a, b) in enumerate(zip(got, sizes[:-1], sizes[1:], strict=True)):
        ok = isinstance(item, tuple) and len(item) == 2 and all(isinstance(p, np.ndarray) for p in item)
        require(ok, f"layer {layer} is not a tuple (W, b) of arrays", got=item)
        shapes = item[0].shape, item[1].shape
        require(shapes == ((b, a), (b,)), f"layer {layer} has wrong shapes", got=shapes, expected=((b, a), (b,)))
    return got


def trained(submission, *args, **kwargs):
    got = submission.train(*args, **kwargs)
    require(isinstance(got, tuple) and len(got) == 2, "not a tuple of parameters and losses", got=got)
    require(isinstance(got[1], list), "the losses are not a list", got=got[1])
    return got


def compare(got, expected, rtol=1e-10):
    for layer, ((W, b), (right_W, right_b)) in enumerate(zip(got, expected, strict=True)):
        close(W, right_W, rtol=rtol, by="tensor", what=f"W of layer {layer}")
        close(b, right_b, rtol=rtol, atol=1e-13, by="tensor", what=f"b of layer {layer}")


def within_six_errors(samples, mean, variance, what):
    """The mean of independent samples of known variance; a right program fails once in 500 million times."""
    error, off = (variance / samples.size) ** 0.5, samples.mean() - mean
    require(
        abs(off) <= 6.0 * error, f"the mean of {what}", got=samples.mean(), expected=f"{mean:g} +- {6.0 * error:.4f}"
    )


def full_batch_descent(params, x, y, steps, lr, momentum, weight_decay, nonlinearity):
    """The formula with torch's gradients, all rows in each step: (parameters, losses before each step)."""
    layers = [tuple(torch.tensor(p, requires_grad=True) for p in layer) for layer in params]
    flat = [p for layer in layers for p in layer]
    velocities, losses = [torch.zeros_like(p) for p in flat], []
    for _ in range(steps):
        h = torch.tensor(x)
        for depth, (W, b) in enumerate(layers, start=1):
            h = F.linear(h, W, b)
            if depth < len(layers):
                h = ACTIVATIONS[nonlinearity](h)
        loss = F.cross_entropy(h, torch.tensor(y))
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, flat)
        with torch.no_grad():
            for p, v, g in zip(flat, velocities, gradients, strict=True):
                v.mul_(momentum).add_(g + (weight_decay * p if p.ndim == 2 else 0.0))
                p.sub_(lr * v)
    return [tuple(p.detach().numpy() for p in layer) for layer in layers], losses


class Signal:
    """Lives beside the submission, so that fifty layers of weights need not travel."""

    def __init__(self, init_params, rms_per_layer):
        self.init_params, self.rms_per_layer = init_params, rms_per_layer

    def sizes_after(self, layers, width, nonlinearity, seed):
        import numpy as np

        rng = np.random.default_rng(seed)
        params = self.init_params([width] * (layers + 1) + [10], nonlinearity, rng)
        return self.rms_per_layer(params, rng.standard_normal((4, width)), nonlinearity)


@points(2)
def test_signal_keeps_its_size(submission):
    """Fifty hidden layers of width 256: the last one's activations are neither dead nor huge."""
    signal = submission.prop(Signal, submission.init_params, submission.rms_per_layer)
    for nonlinearity, low, high in (("relu", 0.05, 20.0), ("tanh", 0.4, 0.9)):
        for seed in range(4):
            rms = signal.sizes_after(50, 256, nonlinearity, seed)
            require(len(rms) == 50, "not one number per hidden layer", got=len(rms), expected=50)
            require(
                low <= rms[-1] <= high, f"rms after 50 {nonlinearity} layers", got=rms[-1], expected=f"{low} to {high}"
            )


@points(2)
def test_weight_statistics(submission, rng):
    """Every layer's weights: mean 0, variance gain^2 / fan_in, normal; biases 0; the last layer's gain is 1."""
    sizes = (300, 400, 250, 100)
    for nonlinearity, gain in (("relu", 2.0**0.5), ("tanh", 5.0 / 3.0), ("linear", 1.0)):
        params = layers(submission.init_params(sizes, nonlinearity, rng), sizes)
        for layer, (W, b) in enumerate(params):
            std = (gain if layer < 2 else 1.0) / sizes[layer] ** 0.5
            where = f"(layer {layer}, {nonlinearity}; std is {std:.4f})"
            w = W / std
            within_six_errors(w, 0.0, 1.0, f"W / std {where}")
            within_six_errors(w**2, 1.0, 2.0, f"(W / std)^2 {where}")
            within_six_errors(w**4, 3.0, 96.0, f"(W / std)^4, which is 3 for a normal distribution {where}")
            within_six_errors(w[:-1] * w[1:], 0.0, 1.0, f"products of entries below each other {where}")
            within_six_errors(w[:, :-1] * w[:, 1:], 0.0, 1.0, f"products of entries beside each other {where}")
            close(b, np.zeros(sizes[layer + 1]), what=f"b of layer {layer}")
    [(W, _)] = layers(submission.init_params([400, 300], "relu", rng), [400, 300])
    within_six_errors((W * 20.0) ** 2, 1.0, 2.0, "(W / std)^2 (a single layer is the last: std is 1 / sqrt(400))")
    with raises(ValueError):
        submission.init_params([3, 4, 2], "selu", rng)


@points(1)
def test_init_follows_rng(submission):
    """The same state of rng gives the same weights, and a second call other ones."""
    first = submission.init_params((3, 4, 2), "relu", np.random.default_rng(5))
    rng = np.random.default_rng(5)
    compare(submission.init_params((3, 4, 2), "relu", rng), first)
    second = submission.init_params((3, 4, 2), "relu", rng)
    require(not np.allclose(first[0][0], second[0][0]), "a second call draws the same weights", got=second[0][0])


@points(1)
def test_rms_by_hand(submission, rng):
    """sqrt(mean(h^2)) after the nonlinearity, hidden layers only: against the formula, with biases."""
    for nonlinearity, act in (("relu", lambda z: np.maximum(z, 0.0)), ("tanh", np.tanh), ("linear", lambda z: z)):
        for sizes in ((3, 5, 4, 2), (4, 1, 3), (2, 2)):
            params, x = random_params(rng, sizes), rng.standard_normal((6, sizes[0]))
            expected, h = [], x
            for W, b in params[:-1]:
                h = act(h @ W.T + b)
                expected.append(float(np.sqrt((h**2).mean())))
            close(submission.rms_per_layer(params, x, nonlinearity), expected, rtol=1e-12, what="rms_per_layer")


@points(2)
@given(n=integers(1, 40), batch=integers(1, 50), seed=integers(0, 2**32 - 1), examples=25)
def test_epoch_is_a_permutation(submission, n, batch, seed):
    """Pieces of `batch`, the last one shorter, every index once; the same rng state gives the same batches."""
    rng = np.random.default_rng(seed)
    got = submission.minibatches(n, batch, rng)
    require(isinstance(got, list), "not a list", got=got)
    integer = all(isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu" for rows in got)
    require(integer, "not 1-D integer arrays", got=got)
    sizes = [min(batch, n - start) for start in range(0, n, batch)]
    require([len(rows) for rows in got] == sizes, "wrong sizes", got=[len(rows) for rows in got], expected=sizes)
    seen = sorted(int(i) for rows in got for i in rows)
    require(seen == list(range(n)), "not every index exactly once", got=seen, expected=list(range(n)))
    again = submission.minibatches(n, batch, np.random.default_rng(seed))
    require(all(map(np.array_equal, got, again)), "the same state of rng gives other batches", got=again, expected=got)
    if n >= 25:  # two equal orders of 25: one in 1e25
        second = submission.minibatches(n, batch, rng)
        require(not all(map(np.array_equal, got, second)), "the second epoch has the order of the first", got=second)


@points(1)
def test_every_order_is_equally_likely(submission, rng):
    """All 24 orders of four samples occur equally often."""
    seeds = rng.integers(0, 2**63, 1200)
    calls = [((4, 3, np.random.default_rng(seed)), {}) for seed in seeds]
    orders = [tuple(np.concatenate(got).tolist()) for got in submission.many("minibatches", calls)]
    kinds = sorted(set(orders))
    counts = [orders.count(kind) for kind in kinds] + [0] * (24 - len(kinds))
    frequencies_match(counts, [1 / 24] * 24)


@points(2)
def test_momentum_by_hand(submission, rng):
    """One layer, two full-batch steps with momentum 0.9 and decay 0.01: the formula, and each loss before its step."""
    n, sizes = 7, (4, 3)
    [(W, b)] = params = random_params(rng, sizes)
    x, y = rng.standard_normal((n, 4)), rng.integers(0, 3, n)
    options = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01, "nonlinearity": "relu"}
    got, losses = trained(submission, params, x, y, epochs=2, batch=n, rng=rng, **options)
    expected, v_W, v_b = [], 0.0, 0.0
    for _ in range(2):
        z = x @ W.T + b
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        expected.append(float(-np.log(p[np.arange(n), y]).mean()))
        d = (p - np.eye(3)[y]) / n
        v_W, v_b = 0.9 * v_W + d.T @ x + 0.01 * W, 0.9 * v_b + d.sum(axis=0)
        W, b = W - 0.3 * v_W, b - 0.3 * v_b
    close(losses, expected, rtol=1e-12, what="losses")
    compare(layers(got, sizes), [(W, b)], rtol=1e-12)


@points(2)
@given(
    nonlinearity=sampled_from(list(ACTIVATIONS)),
    depth=integers(1, 3),
    steps=integers(1, 4),
    momentum=sampled_from((0.0, 0.5, 0.9)),
    weight_decay=sampled_from((0.0, 0.1)),
    seed=integers(0, 2**32 - 1),
    examples=15,
)
def test_matches_autograd(submission, nonlinearity, depth, steps, momentum, weight_decay, seed):
    """Full-batch training of one to three layers, with momentum and decay: the formula on torch's gradients."""
    rng = np.random.default_rng(seed)
    sizes = [int(s) for s in rng.integers(2, 7, depth + 1)]
    params = random_params(rng, sizes)
    n = int(rng.integers(1, 9))
    x, y = rng.standard_normal((n, sizes[0])), rng.integers(0, sizes[-1], n)
    options = {"lr": 0.2, "momentum": momentum, "weight_decay": weight_decay, "nonlinearity": nonlinearity}
    got, losses = trained(submission, params, x, y, epochs=steps, batch=n + 1, rng=rng, **options)
    expected, expected_losses = full_batch_descent(params, x, y, steps, **options)
    close(losses, expected_losses, rtol=1e-9, what="losses")
    compare(layers(got, sizes), expected, rtol=1e-9)


@points(1)
def test_decay_on_weights_only(submission, rng):
    """With a single class every gradient is 0: weights shrink as the formula says, biases stay."""
    params = random_params(rng, (3, 4, 1))
    x, y = rng.standard_normal((5, 3)), np.zeros(5, dtype=np.int64)
    options = {"lr": 0.5, "momentum": 0.5, "weight_decay": 0.1, "nonlinearity": "tanh"}
    got, losses = trained(submission, params, x, y, epochs=2, batch=2, rng=rng, **options)
    close(losses, [0.0] * 6, atol=1e-12, what="losses")
    factor, v = 1.0, 0.0
    for _ in range(6):
        v = 0.5 * v + 0.1 * factor
        factor -= 0.5 * v
    compare(layers(got, (3, 4, 1)), [(factor * W, b) for W, b in params], rtol=1e-12)


@points(1)
def test_reshuffles_every_epoch(submission, rng):
    """With lr 0 and batch 1, every epoch has the same losses in another order, each sample's once."""
    x, y = spiral(rng, per_arm=10)
    params = random_params(rng, (2, 5, 3))
    options = {"lr": 0.0, "momentum": 0.9, "weight_decay": 0.0, "nonlinearity": "tanh"}
    got, losses = trained(submission, params, x, y, epochs=3, batch=1, rng=rng, **options)
    require(len(losses) == 90, "not one loss per step", got=len(losses), expected=90)
    z = np.tanh(x @ params[0][0].T + params[0][1]) @ params[1][0].T + params[1][1]
    each = np.log(np.exp(z).sum(axis=1)) - z[np.arange(30), y]
    first, second, third = losses[:30], losses[30:60], losses[60:]
    for epoch in (first, second, third):
        close(sorted(epoch), sorted(each.tolist()), rtol=1e-9, what="the sorted losses of an epoch")
    same = np.allclose(first, second) or np.allclose(second, third)
    require(not same, "two epochs visit the samples in the same order", got=losses)
    compare(layers(got, (2, 5, 3)), params, rtol=1e-15)


@points(1)
def test_short_last_batch(submission, rng):
    """Seven equal samples in batches of 3, 3 and 1: three steps an epoch, each with the mean over its own rows."""
    params = random_params(rng, (2, 3))
    x, y = np.tile(rng.standard_normal((1, 2)), (7, 1)), np.full(7, 1)
    options = {"lr": 0.5, "momentum": 0.5, "weight_decay": 0.0, "nonlinearity": "linear"}
    got, losses = trained(submission, params, x, y, epochs=2, batch=3, rng=rng, **options)
    expected, expected_losses = full_batch_descent(params, x, y, 6, **options)
    close(losses, expected_losses, rtol=1e-9, what="losses")
    compare(layers(got, (2, 3)), expected, rtol=1e-9)


@points(2)
def test_spiral(submission, rng):
    """A spiral of three arms: 60 epochs from your own initialisation reach 97 % on each of five seeds."""
    x, y = spiral(rng)
    options = {"epochs": 60, "batch": 32, "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "nonlinearity": "relu"}
    for seed in range(5):
        start = submission.init_params([2, 64, 64, 3], "relu", np.random.default_rng(seed))
        params, losses = trained(submission, start, x, y, rng=np.random.default_rng(1000 + seed), **options)
        require(len(losses) == 600, "not one loss per step", got=len(losses), expected=600)
        require(0.6 <= losses[0] <= 2.5, "the first loss", got=losses[0], expected="0.6 to 2.5")
        last = float(np.mean(losses[-10:]))
        require(last < 0.1, "the mean of the last ten losses", got=last, expected="< 0.1")
        h = x
        for depth, (W, b) in enumerate(layers(params, (2, 64, 64, 3))):
            h = (np.maximum(h, 0.0) if depth else h) @ W.T + b
        share = submission.accuracy(params, x, y, "relu")
        close(share, float((h.argmax(axis=1) == y).mean()), rtol=1e-12, what="accuracy")
        require(share >= 0.97, "accuracy", got=share, expected="at least 0.97")


@points(1)
def test_accuracy_by_hand(submission):
    """The share of rows whose largest logit is the right one, for each nonlinearity."""
    W, b = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, -1.0])
    x, y = np.array([[3.0, 1.0], [1.0, 5.0], [-2.0, -4.0], [0.0, 0.5]]), np.array([0, 1, 1, 0])
    close(submission.accuracy([(W, b)], x, y, "relu"), 0.75, what="accuracy")
    close(submission.accuracy([(W, b)], x, 1 - y, "relu"), 0.25, what="accuracy")
    head = (np.array([[1.0, -0.5], [0.0, 0.4]]), np.array([-0.2, 0.3]))
    for nonlinearity, act in (("relu", lambda z: np.maximum(z, 0.0)), ("tanh", np.tanh), ("linear", lambda z: z)):
        z = act(x @ W.T + b) @ head[0].T + head[1]
        expected = float((z.argmax(axis=1) == y).mean())
        close(submission.accuracy([(W, b), head], x, y, nonlinearity), expected, what=f"accuracy with {nonlinearity}")


@points(1)
def test_inputs_untouched(submission, rng):
    """Parameters, x and y that went into train are what they were, and the result shares nothing with them."""
    x, y = spiral(rng, per_arm=5)
    params = random_params(rng, (2, 4, 3))
    options = {"epochs": 2, "batch": 4, "momentum": 0.9, "weight_decay": 0.1, "nonlinearity": "relu"}
    for lr in (0.1, 0.0):
        first, _ = trained(submission, params, x, y, lr=lr, rng=np.random.default_rng(3), **options)
        second, _ = trained(submission, params, x, y, lr=lr, rng=np.random.default_rng(3), **options)
        compare(second, first)
