"""Whole-epoch permutation of x and y, argsort of uniforms for the order, one-hot targets, momentum as dict state, gradient by recursion over layers."""

from __future__ import annotations

import numpy as np

ACTS = {
    "relu": (lambda z: z.clip(0), lambda z: np.heaviside(z, 0.0), np.sqrt(2)),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2, 5 / 3),
    "linear": (lambda z: z, np.ones_like, 1.0),
}


def init_params(sizes, nonlinearity, rng):
    if nonlinearity not in ACTS:
        raise ValueError(nonlinearity)
    out = []
    last = len(sizes) - 2
    for i in range(last + 1):
        std = (1.0 if i == last else ACTS[nonlinearity][2]) * sizes[i] ** -0.5
        w = np.array([rng.normal(scale=std, size=sizes[i]) for _ in range(sizes[i + 1])])
        out.append((w, np.zeros(sizes[i + 1])))
    return out


def _logits(params, x, nonlinearity, sizes=None):
    h = x
    for w, b in params[:-1]:
        h = ACTS[nonlinearity][0](h @ w.T + b)
        if sizes is not None:
            sizes.append(float((h * h).mean() ** 0.5))
    return h @ params[-1][0].T + params[-1][1]


def rms_per_layer(params, x, nonlinearity):
    sizes = []
    _logits(params, x, nonlinearity, sizes)
    return sizes


def minibatches(n, batch, rng):
    order = np.argsort(rng.random(n))
    return [order[s] for s in (slice(i, i + batch) for i in range(0, n, batch))]


def _step(params, h, targets, nonlinearity, i=0):
    """(loss, [(dw, db), ...] from layer i on, dh)"""
    w, b = params[i]
    z = h @ w.T + b
    if i == len(params) - 1:
        m = z.max(1, keepdims=True)
        lse = m + np.log(np.exp(z - m).sum(1, keepdims=True))
        loss = float(((lse[:, 0]) - (z * targets).sum(1)).mean())
        dz = (np.exp(z - lse) - targets) / len(h)
        grads = []
    else:
        f, df, _ = ACTS[nonlinearity]
        loss, grads, dh = _step(params, f(z), targets, nonlinearity, i + 1)
        dz = dh * df(z)
    return loss, [(dz.T @ h, dz.sum(0)), *grads], dz @ w


def train(params, x, y, *, epochs, batch, lr, momentum, weight_decay, nonlinearity, rng):
    k = params[-1][0].shape[0]
    state = [[w, b, 0.0, 0.0] for w, b in params]
    losses = []
    for _ in range(epochs):
        order = np.concatenate(minibatches(len(x), batch, rng))
        xs, ts = x[order], np.eye(k)[y[order]]
        for at in range(0, len(x), batch):
            now = [(s[0], s[1]) for s in state]
            loss, grads, _ = _step(now, xs[at : at + batch], ts[at : at + batch], nonlinearity)
            losses.append(loss)
            for s, (dw, db) in zip(state, grads):
                s[2] = momentum * s[2] + dw + weight_decay * s[0]
                s[3] = momentum * s[3] + db
                s[0] = s[0] - lr * s[2]
                s[1] = s[1] - lr * s[3]
    return [(s[0], s[1]) for s in state], losses


def accuracy(params, x, y, nonlinearity):
    z = _logits(params, x, nonlinearity)
    return sum(int(np.argmax(row)) == int(t) for row, t in zip(z, y)) / len(y)
