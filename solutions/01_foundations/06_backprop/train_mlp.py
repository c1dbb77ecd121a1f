"""From a backward pass to a trained network: initialise, shuffle, descend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Params = list[tuple[np.ndarray, np.ndarray]]
"""(W, b) for each layer, the first layer first: W (out, in), b (out,); a layer computes h W^T + b."""


def init_params(sizes: Sequence[int], nonlinearity: str, rng: np.random.Generator) -> Params:
    """Random weights that keep the signal's size from layer to layer (arXiv:1502.01852, section 2.2).

    sizes         (d_in, hidden, ..., k), at least two: layer i maps sizes[i] to sizes[i + 1] features
    nonlinearity  "relu", "tanh" or "linear" (no nonlinearity): what will follow every layer but the last.
                  ValueError for another name.
    rng           where all randomness comes from

    The entries of W are independent and normal with mean 0 and variance gain^2 / fan_in, where fan_in is the layer's
    number of inputs and gain is sqrt(2) before a relu, 5/3 before a tanh, 1 before nothing: with "linear", and for the
    last layer always. Biases are 0. Everything is float64.
    """
    ### BEGIN SOLUTION
    gains = {"relu": np.sqrt(2.0), "tanh": 5.0 / 3.0, "linear": 1.0}
    if nonlinearity not in gains:
        raise ValueError(f"nonlinearity {nonlinearity!r}: it is one of {', '.join(gains)}")
    params = []
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes), start=1):
        gain = gains[nonlinearity] if layer < len(sizes) - 1 else 1.0
        W = rng.normal(0.0, gain / np.sqrt(fan_in), size=(fan_out, fan_in))
        params.append((W, np.zeros(fan_out)))
    return params
    ### END SOLUTION


def rms_per_layer(params: Params, x: np.ndarray, nonlinearity: str) -> list[float]:
    """The size of the signal: sqrt(mean(h^2)) of each hidden layer's activations h, over samples and units, in order.

    x (n, d_in). h is what comes out of the nonlinearity. The last layer, which has none, is not included: one number
    fewer than there are layers.
    """
    ### BEGIN SOLUTION
    _, inputs = _forward(params, x, nonlinearity)
    return [float(np.sqrt(np.mean(h**2))) for h in inputs[1:]]
    ### END SOLUTION


def minibatches(n: int, batch: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One epoch: the indices 0 to n - 1 in a random order, cut into pieces of `batch`.

    Returns a list of integer arrays, (batch,) each; the last is shorter where batch does not divide n. Every index
    occurs exactly once, and every order is equally likely. A second call draws a new order; the same state of rng gives
    the same order. n >= 1, batch >= 1 (and may exceed n).
    """
    ### BEGIN SOLUTION
    order = rng.permutation(n)
    return [order[start : start + batch] for start in range(0, n, batch)]
    ### END SOLUTION


def train(
    params: Params,
    x: np.ndarray,
    y: np.ndarray,
    *,
    epochs: int,
    batch: int,
    lr: float,
    momentum: float,
    weight_decay: float,
    nonlinearity: str,
    rng: np.random.Generator,
) -> tuple[Params, list[float]]:
    """Stochastic gradient descent on the mean softmax cross-entropy of minibatches.

    x (n, d_in), y (n,) ints: the classes. Every epoch visits each sample once, in a new random order (as `minibatches`
    gives it). For each minibatch, with g the gradient of the mean loss over its own rows:

        for W:  v = momentum * v + (g + weight_decay * W)        W = W - lr * v
        for b:  v = momentum * v + g                             b = b - lr * v

    Every v is 0 before the first step of a call. Biases are not decayed.

    Returns (params, losses): new parameters in the same layout (the ones that were passed in, x and y stay as they
    are), and one float per step, the minibatch's loss before that step's update (without a term for the weight decay).

    Paste your `mlp_forward`, `softmax_cross_entropy` and `mlp_backward` from the earlier exercise, or write them anew:
    a submission is one file.
    """
    ### BEGIN SOLUTION
    weights = [np.array(p) for layer in params for p in layer]  # W, b, W, b, ...
    velocities = [np.zeros_like(p) for p in weights]
    losses = []
    for _ in range(epochs):
        for rows in minibatches(len(x), batch, rng):
            layers = _as_layers(weights)
            logits, inputs = _forward(layers, x[rows], nonlinearity)
            loss, d = _cross_entropy(logits, y[rows])
            losses.append(loss)
            gradients = _backward(layers, inputs, d, nonlinearity)
            for p, v, g in zip(weights, velocities, gradients, strict=True):
                decay = weight_decay * p if p.ndim == 2 else 0.0
                v[:] = momentum * v + (g + decay)
                p -= lr * v
    return _as_layers(weights), losses
    ### END SOLUTION


def accuracy(params: Params, x: np.ndarray, y: np.ndarray, nonlinearity: str) -> float:
    """The share of the rows of x whose largest logit is that of the class in y: a float in [0, 1]."""
    ### BEGIN SOLUTION
    logits, _ = _forward(params, x, nonlinearity)
    return float(np.mean(logits.argmax(axis=1) == y))
    ### END SOLUTION


### BEGIN SOLUTION
def _as_layers(weights: list[np.ndarray]) -> Params:
    return list(zip(weights[0::2], weights[1::2], strict=True))


def _forward(params: Params, x: np.ndarray, nonlinearity: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Logits, and the input of every layer."""
    inputs = [x]
    for W, b in params[:-1]:
        z = inputs[-1] @ W.T + b
        inputs.append(np.maximum(z, 0.0) if nonlinearity == "relu" else np.tanh(z) if nonlinearity == "tanh" else z)
    W, b = params[-1]
    return inputs[-1] @ W.T + b, inputs


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    z = logits - logits.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    right = (np.arange(len(labels)), labels)
    d = np.exp(log_p)
    d[right] -= 1.0
    return float(-log_p[right].mean()), d / len(labels)


def _backward(params: Params, inputs: list[np.ndarray], d: np.ndarray, nonlinearity: str) -> list[np.ndarray]:
    """dW, db, dW, db, ... in the order of the layers."""
    gradients: list[np.ndarray] = []
    for (W, _), h in zip(reversed(params), reversed(inputs), strict=True):
        gradients = [d.T @ h, d.sum(axis=0), *gradients]
        # relu and tanh know their slope from their own output.
        slope = (h > 0.0) if nonlinearity == "relu" else 1.0 - h**2 if nonlinearity == "tanh" else 1.0
        d = (d @ W) * slope
    return gradients


### END SOLUTION
