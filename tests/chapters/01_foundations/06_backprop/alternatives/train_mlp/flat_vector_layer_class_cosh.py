"""All parameters in one flat vector with a decay mask, a Layer class that steps backwards, rng.shuffle with np.split, standard_normal scaled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

Params = list[tuple[np.ndarray, np.ndarray]]


def _gain(name: str) -> float:
    match name:
        case "relu":
            return np.sqrt(2.0)
        case "tanh":
            return 5.0 / 3.0
        case "linear":
            return 1.0
    raise ValueError(f"unknown nonlinearity {name}")


def init_params(sizes, nonlinearity, rng):
    g = _gain(nonlinearity)
    gains = [g] * (len(sizes) - 2) + [1.0]
    return [
        (rng.standard_normal((sizes[i + 1], sizes[i])) * gains[i] / sizes[i] ** 0.5, np.zeros(sizes[i + 1]))
        for i in range(len(sizes) - 1)
    ]


class Layer:
    def __init__(self, w, b, nonlinearity):
        self.w, self.b, self.kind = w, b, nonlinearity

    def __call__(self, h):
        self.h = h
        self.z = self.b + np.dot(h, self.w.T)
        if self.kind == "relu":
            return np.where(self.z > 0, self.z, 0.0)
        if self.kind == "tanh":
            return np.tanh(self.z)
        return self.z

    def back(self, d):
        if self.kind == "relu":
            d = np.where(self.z > 0, d, 0.0)
        elif self.kind == "tanh":
            d = d / np.cosh(self.z) ** 2
        self.dw = np.dot(d.T, self.h)
        self.db = np.sum(d, axis=0)
        return np.dot(d, self.w)


def _net(params, nonlinearity):
    return [Layer(w, b, nonlinearity if i < len(params) - 1 else "linear") for i, (w, b) in enumerate(params)]


def rms_per_layer(params, x, nonlinearity):
    out = []
    h = x
    for layer in _net(params, nonlinearity)[:-1]:
        h = layer(h)
        out.append(float(np.linalg.norm(h) / np.sqrt(h.size)))
    return out


def minibatches(n, batch, rng):
    order = np.arange(n)
    rng.shuffle(order)
    return np.split(order, range(batch, n, batch))


def train(params, x, y, *, epochs, batch, lr, momentum, weight_decay, nonlinearity, rng):
    theta = np.concatenate([a.ravel() for pair in params for a in pair]).astype(np.float64)
    decay = np.concatenate([np.full(a.size, weight_decay if a.ndim == 2 else 0.0) for pair in params for a in pair])
    views, at = [], 0
    for pair in params:
        arrays = []
        for a in pair:
            arrays.append(theta[at : at + a.size].reshape(a.shape))
            at += a.size
        views.append(tuple(arrays))
    net = _net(views, nonlinearity)
    v = np.zeros_like(theta)
    losses = []
    for _ in range(epochs):
        for rows in minibatches(len(y), batch, rng):
            z = x[rows]
            for layer in net:
                z = layer(z)
            lp = z - logsumexp(z, axis=1, keepdims=True)
            target = np.zeros_like(lp)
            np.put_along_axis(target, y[rows][:, None], 1.0, axis=1)
            losses.append(float(-np.sum(lp * target) / len(rows)))
            d = (np.exp(lp) - target) / len(rows)
            for layer in reversed(net):
                d = layer.back(d)
            g = np.concatenate([a.ravel() for layer in net for a in (layer.dw, layer.db)])
            v = momentum * v + g + decay * theta
            theta -= lr * v
    return [(w.copy(), b.copy()) for w, b in views], losses


def accuracy(params, x, y, nonlinearity):
    h = x
    for layer in _net(params, nonlinearity):
        h = layer(h)
    return float((h.argmax(1) == np.asarray(y)).sum() / len(y))
