"""From a backward pass to a trained network: initialise, shuffle, descend."""

# Not allowed here, in any form: torch, sklearn.

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
    raise NotImplementedError("1.6/train_mlp: write init_params")


def rms_per_layer(params: Params, x: np.ndarray, nonlinearity: str) -> list[float]:
    """The size of the signal: sqrt(mean(h^2)) of each hidden layer's activations h, over samples and units, in order.

    x (n, d_in). h is what comes out of the nonlinearity. The last layer, which has none, is not included: one number
    fewer than there are layers.
    """
    raise NotImplementedError("1.6/train_mlp: write rms_per_layer")


def minibatches(n: int, batch: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One epoch: the indices 0 to n - 1 in a random order, cut into pieces of `batch`.

    Returns a list of integer arrays, (batch,) each; the last is shorter where batch does not divide n. Every index
    occurs exactly once, and every order is equally likely. A second call draws a new order; the same state of rng gives
    the same order. n >= 1, batch >= 1 (and may exceed n).
    """
    raise NotImplementedError("1.6/train_mlp: write minibatches")


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
    raise NotImplementedError("1.6/train_mlp: write train")


def accuracy(params: Params, x: np.ndarray, y: np.ndarray, nonlinearity: str) -> float:
    """The share of the rows of x whose largest logit is that of the class in y: a float in [0, 1]."""
    raise NotImplementedError("1.6/train_mlp: write accuracy")
