"""Hidden tests: an MLP's backward pass by hand. Oracle: torch's autograd in float64; central differences."""

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from grader.testing import (
    booleans,
    close,
    executed_lines,
    given,
    growth,
    integers,
    lists,
    matrix_products,
    points,
    raises,
    require,
    sampled_from,
)

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "gelu": F.gelu}

PARAMS = [
    (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.0, -1.0])),
    (np.array([[1.0, 2.0], [-1.0, 1.0], [0.0, 0.5]]), np.array([0.1, 0.0, -0.1])),
]
X = np.array([[1.0, 2.0], [-1.0, 1.0]])
LABELS = np.array([2, 0])


def network(rng, sizes, whole_numbers=False):
    """Parameters and a function that draws arrays like them; small whole numbers hit a relu's kink again and again."""

    def draw(*shape):
        return rng.integers(-2, 3, shape).astype(float) if whole_numbers else rng.standard_normal(shape)

    return [(draw(out, n) / (1.0 if whole_numbers else n**0.5), draw(out)) for n, out in pairwise(sizes)], draw


def as_tensors(params, x):
    params = [tuple(torch.from_numpy(np.array(p)).requires_grad_() for p in layer) for layer in params]
    return params, torch.from_numpy(np.array(x)).requires_grad_()


def torch_logits(params, x, activation):
    for depth, (W, b) in enumerate(params, start=1):
        x = F.linear(x, W, b)
        if depth < len(params):
            x = ACTIVATIONS[activation](x)
    return x


def gradient_oracle(params, x, activation, dlogits):
    """torch's gradients of sum(dlogits * logits): ([(dW, db), ...], dx)."""
    params, x = as_tensors(params, x)
    leaves = [p for layer in params for p in layer]
    found = torch.autograd.grad(torch_logits(params, x, activation), [*leaves, x], torch.from_numpy(np.array(dlogits)))
    found = [g.numpy() for g in found]
    return list(zip(found[:-1:2], found[1:-1:2], strict=True)), found[-1]


def loss_oracle(logits, labels, ignore_index=-100):
    """torch's mean loss and its gradient."""
    z = torch.from_numpy(np.array(logits)).requires_grad_()
    loss = F.cross_entropy(z, torch.from_numpy(np.array(labels)), ignore_index=ignore_index)
    loss.backward()
    return loss.item(), z.grad.numpy()


def pair(got, what):
    require(isinstance(got, tuple) and len(got) == 2, f"not a tuple of two: {what}", got=got)
    return got


def forward(submission, params, x, activation):
    logits, cache = pair(submission.mlp_forward(params, x, activation), "logits and cache")
    require(isinstance(cache, list), "the cache is not a list", got=cache)
    return logits, cache


def compare_gradients(got, expected, rtol=1e-10):
    """Relative to the largest entry of each array; what cancels to 0 may come out as rounding error."""
    dparams, dx = pair(got, "gradients of the parameters, gradient of x")
    require(isinstance(dparams, list), "the gradients of the parameters are not a list", got=dparams)
    require(len(dparams) == len(expected[0]), "not one pair of gradients per layer", got=dparams)
    for layer, (layer_got, (dW, db)) in enumerate(zip(dparams, expected[0], strict=True)):
        require(isinstance(layer_got, tuple) and len(layer_got) == 2, "not a tuple (dW, db)", got=layer_got)
        close(layer_got[0], dW, rtol=rtol, atol=1e-12, by="tensor", what=f"dW of layer {layer}")
        close(layer_got[1], db, rtol=rtol, atol=1e-12, by="tensor", what=f"db of layer {layer}")
    close(dx, expected[1], rtol=rtol, atol=1e-12, by="tensor", what="dx")


@points(2)
def test_worked_example(submission):
    """Two layers with relu, two samples, three classes: the loss and all gradients by hand."""
    logits, cache = forward(submission, PARAMS, X, "relu")
    close(logits, [[7.1, 3.5, 1.65], [1.1, 0.5, 0.15]], rtol=1e-12, what="logits")
    loss, dlogits = pair(submission.softmax_cross_entropy(logits, LABELS), "loss and gradient")
    close(loss, 3.0707616532, rtol=1e-9, what="loss")
    dparams, dx = pair(submission.mlp_backward(PARAMS, cache, dlogits), "gradients")
    close(dparams[0][0], [[0.0, 0.0], [1.0252615, 1.1756387]], rtol=1e-6, what="dW of layer 0")
    close(dx, [[0.3668167, 1.4672668], [-0.1458141, -0.5832562]], rtol=1e-6, what="dx")


@points(4)
@given(
    sizes=lists(integers(1, 17), n=(2, 5)),
    n=integers(1, 9),
    whole_numbers=booleans(),
    seed=integers(0, 2**32 - 1),
    examples=25,
)
def test_matches_autograd(submission, sizes, n, whole_numbers, seed):
    """1 to 4 layers, widths 1 to 17, batches 1 to 9, all activations: logits and every gradient against torch."""
    params, draw = network(np.random.default_rng(seed), sizes, whole_numbers)
    x, dlogits = draw(n, sizes[0]), draw(n, sizes[-1])
    for activation in ACTIVATIONS:
        logits, cache = forward(submission, params, x, activation)
        expected = torch_logits(*as_tensors(params, x), activation).detach().numpy()
        close(logits, expected, rtol=1e-12, atol=1e-12, by="tensor", what="logits")
        expected = gradient_oracle(params, x, activation, dlogits)
        compare_gradients(submission.mlp_backward(params, cache, dlogits), expected)


@points(1)
def test_relu_at_zero(submission):
    """Pre-activations of exactly 0, as a zero row without biases has: relu's derivative there is 0."""
    params = [(W, np.zeros_like(b)) for W, b in PARAMS]
    x, d = np.array([[0.0, 0.0], [1.0, 1.0], [4.0, -1.0]]), np.ones((3, 3))
    _, cache = forward(submission, params, x, "relu")
    expected = gradient_oracle(params, x, "relu", d)
    compare_gradients(submission.mlp_backward(params, cache, d), expected)


@points(2)
@given(
    n=integers(1, 17),
    k=integers(1, 17),
    ignored=sampled_from((0.0, 0.4)),
    size=sampled_from((1.0, 8.0)),
    seed=integers(0, 2**32 - 1),
    examples=30,
)
def test_loss_matches_torch(submission, n, k, ignored, size, seed):
    """The mean loss and its gradient against torch, with and without ignored rows."""
    rng = np.random.default_rng(seed)
    logits = size * rng.standard_normal((n, k)) + 3.0
    labels = np.where(rng.random(n) < ignored, -100, rng.integers(0, k, n))
    labels[rng.integers(n)] = rng.integers(k)
    loss, dlogits = pair(submission.softmax_cross_entropy(logits, labels), "loss and gradient")
    expected_loss, expected = loss_oracle(logits, labels)
    close(loss, expected_loss, rtol=1e-10, atol=1e-12, what="loss")
    close(dlogits, expected, rtol=1e-10, atol=1e-13, by="tensor", what="dlogits")


@points(2)
def test_ignored_rows(submission, rng):
    """What stands in ignored rows changes nothing; N counts the other rows; nothing left: 0.0 and zeros."""
    for ignore_index in (-100, 2, 7):
        logits = rng.standard_normal((6, 5))
        labels = np.array([3, ignore_index, 0, 4, ignore_index, 1])
        loss, expected = loss_oracle(logits, labels, ignore_index)
        for garbage in (0.0, 1e4, -1e300, 3e7):
            other = logits.copy()
            other[1] = garbage
            other[4, 1] = -garbage
            got = pair(submission.softmax_cross_entropy(other, labels, ignore_index), "loss and gradient")
            close(got[0], loss, rtol=1e-10, what="loss")
            close(got[1], expected, rtol=1e-10, atol=1e-13, by="tensor", what="dlogits")
            require(not np.any(got[1][[1, 4]]), "dlogits is not exactly 0 in the ignored rows", got=got[1])
    for n in (1, 3, 0):
        got = pair(submission.softmax_cross_entropy(rng.standard_normal((n, 4)), np.full(n, -100)), "loss and gradient")
        close(got[0], 0.0, what="loss")
        close(got[1], np.zeros((n, 4)), what="dlogits")


@points(2)
def test_huge_logits(submission, rng):
    """Logits of 1e4 beside ordinary rows: no overflow, no clipping (a loss of 20,000), rows of dlogits sum to 0."""
    logits = rng.standard_normal((7, 5))
    logits[1] += 1e4
    logits[2] -= 1e4
    logits[3] = [1e4, -1e4, 0.0, 3.0, -3.0]
    logits[4] = [1e4, 9999.0, 9998.0, -1e4, 0.0]
    logits[5] *= 1e4
    for labels in ([0, 1, 2, 0, 1, 2, 3], [1, 1, 4, 1, 3, 0, 2]):
        got = pair(submission.softmax_cross_entropy(logits, np.array(labels)), "loss and gradient")
        loss, expected = loss_oracle(logits, np.array(labels))
        close(got[0], loss, rtol=1e-9, what="loss")
        close(got[1], expected, rtol=1e-9, atol=1e-12, by="tensor", what="dlogits")
        close(got[1].sum(axis=1), np.zeros(7), atol=1e-10, what="the sums of the rows of dlogits")
    got = pair(submission.softmax_cross_entropy(logits[3:4], np.array([1])), "loss and gradient")
    close(got[0], 20000.0, rtol=1e-12, what="loss")


@points(2)
def test_finite_differences(submission, rng):
    """The whole chain, from x and parameters to the loss, against central differences of your own forward pass."""
    h = 1e-5
    for activation, sizes in (("tanh", (3, 5, 4)), ("gelu", (4, 6, 3, 3))):
        params, draw = network(rng, sizes)
        x, labels = draw(5, sizes[0]), np.array([0, 2, -100, 1, 0])
        flat = [x, *(p for layer in params for p in layer)]
        places = [(0, tuple(rng.integers(x.shape))) for _ in range(4)]
        places += [(i, tuple(rng.integers(flat[i].shape))) for i in rng.integers(1, len(flat), 10)]
        calls = []
        for which, index in places:
            for step in (h, -h):
                moved = [p.copy() for p in flat]
                moved[which][index] += step
                layers = list(zip(moved[1::2], moved[2::2], strict=True))
                calls.append(((layers, moved[0], activation), {}))
        logits = [pair(result, "logits and cache")[0] for result in submission.many("mlp_forward", calls)]
        losses = submission.many("softmax_cross_entropy", [((z, labels), {}) for z in logits])
        losses = np.array([pair(result, "loss and gradient")[0] for result in losses])
        slopes = (losses[0::2] - losses[1::2]) / (2.0 * h)

        logits, cache = forward(submission, params, x, activation)
        _, dlogits = pair(submission.softmax_cross_entropy(logits, labels), "loss and gradient")
        dparams, dx = pair(submission.mlp_backward(params, cache, dlogits), "gradients")
        gradients = [dx, *(g for layer in dparams for g in layer)]
        got = np.array([gradients[which][index] for which, index in places])
        close(got, slopes, rtol=1e-6, atol=1e-9, by="tensor", what="gradients in 14 places")


@points(1)
def test_linear_network(submission, rng):
    """One layer: dW = d^T x, db = the sum of d's rows, dx = d W, exactly (whole numbers), for any activation."""
    for n, d_in, k in ((4, 4, 4), (5, 3, 2), (1, 2, 3)):
        W, b, x, d = (rng.integers(-9, 10, shape).astype(float) for shape in ((k, d_in), (k,), (n, d_in), (n, k)))
        for activation in ACTIVATIONS:
            logits, cache = forward(submission, [(W, b)], x, activation)
            close(logits, x @ W.T + b, rtol=1e-15, what="logits")
            expected = [(d.T @ x, d.sum(axis=0))], d @ W
            compare_gradients(submission.mlp_backward([(W, b)], cache, d), expected, rtol=1e-15)


@points(2)
def test_backward_is_pure(submission, rng):
    """A second call gives the same; other calls may come in between; no argument is changed."""
    cases = []
    for activation, sizes in (("relu", (3, 4, 2)), ("gelu", (3, 4, 2)), ("tanh", (2, 5, 5, 3))):
        params, draw = network(rng, sizes)
        x, d = draw(6, sizes[0]), draw(6, sizes[-1])
        cases.append((params, forward(submission, params, x, activation)[1], d, x, activation))
    for params, cache, d, x, activation in cases:
        expected = gradient_oracle(params, x, activation, d)
        compare_gradients(submission.mlp_backward(params, cache, d), expected)
        compare_gradients(submission.mlp_backward(params, cache, d), expected)
        doubled = gradient_oracle(params, x, activation, 2.0 * d)
        compare_gradients(submission.mlp_backward(params, cache, 2.0 * d), doubled)


@points(1)
def test_refusals(submission):
    """Labels k, -1, and -100 where something else is ignored, and an activation that does not exist: ValueError."""
    logits = np.zeros((3, 4))
    for labels in ([0, 4, 1], [0, -1, 1], [5, -100, -100]):
        with raises(ValueError):
            submission.softmax_cross_entropy(logits, np.array(labels))
    with raises(ValueError):
        submission.softmax_cross_entropy(logits, np.array([1, -100, 2]), 0)
    with raises(ValueError):
        submission.softmax_cross_entropy(logits, np.array([1, -100, 2]), ignore_index=0)
    for name in ("selu", ""):
        with raises(ValueError):
            submission.mlp_forward(PARAMS, X, name)


@points(2)
def test_cost_products(submission, rng):
    """One product per layer forwards, two backwards, each for the whole batch."""
    sizes, n = (64, 96, 80, 48), 32
    params, draw = network(rng, sizes)
    x, d = draw(n, sizes[0]), draw(n, sizes[-1])
    once = sum(2 * n * d_in * d_out for d_in, d_out in pairwise(sizes))
    for activation in ACTIVATIONS:
        with matrix_products(submission, "flops") as cost:
            _, cache = forward(submission, params, x, activation)
        cost.at_most(1.05 * once, "x W^T in each layer")
        with matrix_products(submission, "flops") as cost:
            got = submission.mlp_backward(params, cache, d)
        cost.at_most(2.1 * once, "d^T h and d W in each layer")
        compare_gradients(got, gradient_oracle(params, x, activation, d))


@points(2)
def test_cost_no_loop_over_samples(submission, rng):
    """Eight times the samples execute as many lines of Python."""
    params, draw = network(rng, (5, 7, 6, 3))
    for activation in ("relu", "tanh"):

        def forward_lines(n, activation=activation):
            with executed_lines(submission) as cost:
                forward(submission, params, draw(n, 5), activation)
            return cost

        def backward_lines(n, activation=activation):
            _, cache = forward(submission, params, draw(n, 5), activation)
            with executed_lines(submission) as cost:
                submission.mlp_backward(params, cache, draw(n, 3))
            return cost

        growth(forward_lines, 8, 64).at_most(1.1, "forward: the batch is one matrix")
        growth(backward_lines, 8, 64).at_most(1.1, "backward: the batch is one matrix")
