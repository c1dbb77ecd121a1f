"""An optimiser with a velocity per parameter; one-hot targets; log-probabilities by logaddexp; indices by argsort."""

import math

import numpy as np


def gain_of(name):
    try:
        return {"relu": math.sqrt(2), "tanh": 5 / 3, "linear": 1}[name]
    except KeyError:
        raise ValueError(f"unknown nonlinearity {name}") from None


def init_params(sizes, nonlinearity, rng):
    gains = [gain_of(nonlinearity)] * (len(sizes) - 2) + [1.0]
    return [
        (g * rng.standard_normal((out, fan)) * fan**-0.5, np.zeros((out,)))
        for g, fan, out in zip(gains, sizes[:-1], sizes[1:], strict=True)
    ]


def act(z, name):
    return {"relu": lambda: z.clip(0), "tanh": lambda: np.tanh(z), "linear": lambda: z}[name]()


def slope(z, name):
    return {"relu": lambda: z > 0, "tanh": lambda: 1 / np.cosh(z) ** 2, "linear": lambda: np.ones_like(z)}[name]()


def run(params, x, name):
    hs, zs = [x], []
    for i, (W, b) in enumerate(params):
        zs.append(np.dot(hs[-1], W.T) + b)
        if i + 1 < len(params):
            hs.append(act(zs[-1], name))
    return hs, zs


def rms_per_layer(params, x, nonlinearity):
    hs, _ = run(params, x, nonlinearity)
    return [np.linalg.norm(h) / math.sqrt(h.size) for h in hs[1:]]


def minibatches(n, batch, rng):
    order = np.argsort(rng.random(n))
    return np.split(order, range(batch, n, batch))


class Momentum:
    def __init__(self, params, lr, momentum, decay):
        self.params = [[W.copy(), b.copy()] for W, b in params]
        self.velocity = [[0.0, 0.0] for _ in params]
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def step(self, grads):
        for pair, velocity, grad in zip(self.params, self.velocity, grads, strict=True):
            for i, decay in enumerate((self.decay, 0.0)):
                velocity[i] = self.momentum * velocity[i] + grad[i] + decay * pair[i]
                pair[i] = pair[i] - self.lr * velocity[i]


def train(params, x, y, *, epochs, batch, lr, momentum, weight_decay, nonlinearity, rng):
    optimizer, losses = Momentum(params, lr, momentum, weight_decay), []
    for _epoch in range(epochs):
        for rows in minibatches(len(y), batch, rng):
            now = optimizer.params
            hs, zs = run(now, x[rows], nonlinearity)
            log_p = zs[-1] - np.logaddexp.reduce(zs[-1], axis=1, keepdims=True)
            target = np.eye(zs[-1].shape[1])[y[rows]]
            losses.append(-(target * log_p).sum() / len(rows))
            d, grads = (np.exp(log_p) - target) / len(rows), []
            for i in reversed(range(len(now))):
                grads.append((d.T @ hs[i], d.sum(0)))
                if i:
                    d = (d @ now[i][0]) * slope(zs[i - 1], nonlinearity)
            optimizer.step(grads[::-1])
    return [tuple(pair) for pair in optimizer.params], losses


def accuracy(params, x, y, nonlinearity):
    return sum(run(params, x, nonlinearity)[1][-1].argmax(1) == y) / len(y)
