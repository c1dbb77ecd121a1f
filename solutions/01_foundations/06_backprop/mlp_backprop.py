"""A classifier of any depth, forwards and backwards, on whole minibatches and without an autograd engine."""

from __future__ import annotations

import numpy as np
from scipy.special import erf  # numpy has no erf; the exact GELU needs it

Params = list[tuple[np.ndarray, np.ndarray]]
"""(W, b) for each layer, the first layer first, in torch's layout: W (out, in), b (out,)."""


def mlp_forward(params: Params, x: np.ndarray, activation: str) -> tuple[np.ndarray, list]:
    """The logits of a multilayer perceptron, and what its backward pass will need.

    params      at least one layer; layer i computes z = h W^T + b from its input h (h = x for the first)
    x           (n, d_in) float64: one row per sample
    activation  is applied to z after every layer but the last, elementwise:
                "relu"  max(z, 0)
                "tanh"
                "gelu"  z Phi(z), with Phi(z) = (1 + erf(z / sqrt 2)) / 2, the normal distribution function: the exact
                        one (torch's default), not its tanh approximation

    Returns (logits, cache): logits (n, k) is the last layer's z. The cache is a list of your own making: arrays,
    numbers, strings, tuples and lists of them. It must hold all that `mlp_backward` needs beside params (the
    activation's name too), since other calls may come in between.

    ValueError for another activation, wherever there is one to apply (two layers or more).

    Cost: one matrix product per layer, for the whole batch at once: 2 n in out floating-point operations (5 % more are
    tolerated, so that the bias may be part of the product). No loop over samples: with "relu" and "tanh", the number of
    executed lines of Python does not depend on n.
    """
    ### BEGIN SOLUTION
    cache = []
    h = x
    for depth, (W, b) in enumerate(params, start=1):
        z = h @ W.T + b
        cache.append((activation, h, z))
        h = _activate(activation, z) if depth < len(params) else z
    return h, cache
    ### END SOLUTION


def softmax_cross_entropy(logits: np.ndarray, labels: np.ndarray, ignore_index: int = -100) -> tuple[float, np.ndarray]:
    """The mean of -log softmax(logits)[label] over the rows that count, and its gradient with respect to the logits.

    logits        (n, k) float64, finite, of any size: 1e4 must neither overflow nor be clipped
    labels        (n,) ints in [0, k), or ignore_index: such a row does not count
    ignore_index  any int; if it lies in [0, k), the rows with that label are ignored

    With N the number of rows that count, the gradient is (softmax(z) - onehot(label)) / N in those rows and exactly 0
    in the ignored ones, whatever finite numbers stand there. Its rows sum to 0 (to 1e-10).

    Returns (loss, dlogits): a float, and an array of logits' shape. If no row counts (n = 0 included): (0.0, zeros),
    where torch would return NaN. ValueError for a label that is neither in [0, k) nor ignore_index.
    """
    ### BEGIN SOLUTION
    k = logits.shape[1]
    counts = labels != ignore_index
    if np.any(counts & ((labels < 0) | (labels >= k))):
        raise ValueError(f"labels must lie in [0, {k}) or be {ignore_index}")
    dlogits = np.zeros_like(logits)
    rows = np.flatnonzero(counts)
    if len(rows) == 0:
        return 0.0, dlogits

    z = logits[rows] - logits[rows].max(axis=1, keepdims=True)
    log_total = np.log(np.exp(z).sum(axis=1, keepdims=True))
    log_p = z - log_total
    right = (np.arange(len(rows)), labels[rows])
    loss = -log_p[right].mean()

    gradient = np.exp(log_p)
    gradient[right] -= 1.0
    dlogits[rows] = gradient / len(rows)
    return float(loss), dlogits
    ### END SOLUTION


def mlp_backward(params: Params, cache: list, dlogits: np.ndarray) -> tuple[Params, np.ndarray]:
    """The gradients of a loss whose gradient with respect to the logits is dlogits (n, k).

    params, cache as they went into `mlp_forward` and came out of it. For one layer, z = h W^T + b and d = d loss / d z:

        dW = d^T h      (out, in), W's own shape
        db = sum of d over the rows
        dh = d W        (n, in)

    and below it dz' = dh * act'(z'), where z' is the pre-activation of the layer below, h = act(z'). The derivatives:

        relu'(z) = 1 if z > 0, else 0 (at exactly 0 too, as in torch)
        tanh'(z) = 1 - tanh(z)^2
        gelu'(z) = Phi(z) + z phi(z), with the normal density phi(z) = exp(-z^2 / 2) / sqrt(2 pi)

    Nothing is divided by n here: that mean is in dlogits already. Any dlogits will do, not only the cross-entropy's.

    Returns (dparams, dx): dparams a list of tuples (dW, db), laid out as params; dx (n, d_in). Neither params nor cache
    is changed: a second call gives the same again.

    Cost: two matrix products per layer, that is twice the floating-point operations of the forward pass (5 % more are
    tolerated, so that db may be written as a product). No second forward pass, no loop over samples.
    """
    ### BEGIN SOLUTION
    dparams = []
    d = dlogits
    for layer in reversed(range(len(params))):
        W, _ = params[layer]
        activation, h, _ = cache[layer]
        dparams.append((d.T @ h, d.sum(axis=0)))
        d = d @ W
        if layer > 0:
            _, _, z_below = cache[layer - 1]
            d = d * _slope(activation, z_below)
    return dparams[::-1], d
    ### END SOLUTION


### BEGIN SOLUTION
def _normal_cdf(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + erf(z / np.sqrt(2.0)))


def _activate(activation: str, z: np.ndarray) -> np.ndarray:
    if activation == "relu":
        return np.maximum(z, 0.0)
    if activation == "tanh":
        return np.tanh(z)
    if activation == "gelu":
        return z * _normal_cdf(z)
    raise ValueError(f'activation {activation!r}: it is "relu", "tanh" or "gelu"')


def _slope(activation: str, z: np.ndarray) -> np.ndarray:
    """The activation's derivative at the pre-activation z."""
    if activation == "relu":
        return (z > 0.0).astype(z.dtype)
    if activation == "tanh":
        return 1.0 - np.tanh(z) ** 2
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return _normal_cdf(z) + z * density


### END SOLUTION
