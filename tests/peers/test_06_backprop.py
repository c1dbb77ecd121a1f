"""Chapter 1.6 against torch (autograd, nn, optim) and micrograd: the same expressions, networks and training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import solution

CHAPTER = "01_foundations/06_backprop"


Value = solution(CHAPTER, "scalar_autograd").Value
mlp = solution(CHAPTER, "mlp_backprop")
Tensor = solution(CHAPTER, "tensor_autograd").Tensor
training = solution(CHAPTER, "train_mlp")


def torch_scalar(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


def torch_array(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


# -- scalars ----------------------------------------------------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp())


def lstm_cell(a: Any, b: Any, c: Any) -> Any:
    """Five steps of a gated recurrence: every weight is used in each of them."""
    h, s = a * 0.0, c * 0.0
    for x in (0.5, -1.0, 2.0, 0.25, -0.75):
        gate = sigmoid(a * x + b * h)
        s = gate * s + (1 - gate) * (c * x + a * h).tanh()
        h = sigmoid(b * x - c) * s.tanh()
    return h


def softplus_loss(a: Any, b: Any, c: Any) -> Any:
    return (1 + (-(a * b - c / a)).exp()).log() + 0.5 * (a**2 + b**2 + c**2) / 3


def norm(a: Any, b: Any, c: Any) -> Any:
    mean = (a + b + c) / 3
    variance = ((a - mean) ** 2 + (b - mean) ** 2 + (c - mean) ** 2) / 3
    return ((a - mean) * (variance + 1e-5) ** -0.5).relu() - 2 / (b - 4)


@pytest.mark.parametrize("expression", [lstm_cell, softplus_loss, norm])
@pytest.mark.parametrize("leaves", [(1.2, -0.7, 0.4), (-0.3, 2.5, -1.1), (2.0, 0.5, 0.5)])
def test_scalars_against_torch(expression: Any, leaves: tuple[float, ...]) -> None:
    ours, theirs = [Value(x) for x in leaves], [torch_scalar(x) for x in leaves]
    result, expected = expression(*ours), expression(*theirs)
    result.backward()
    expected.backward()
    assert result.data == pytest.approx(expected.item(), rel=1e-13)
    for x, y in zip(ours, theirs, strict=True):
        assert y.grad is not None
        assert x.grad == pytest.approx(y.grad.item(), rel=1e-12, abs=1e-14)


def test_scalars_against_micrograd() -> None:
    engine = pytest.importorskip("micrograd.engine", reason="micrograd is an optional peer: pip install -e '.[peers]'")

    def expression(a: Any, b: Any) -> Any:
        c = a + b
        d = a * b + b**3
        c = c + c + 1
        c = c + 1 + c + (-a)
        d = d + d * 2 + (b + a).relu()
        d = d + 3 * d + (b - a).relu()
        f = (c - d) ** 2 / 2.0
        return f + 10.0 / f

    ours, theirs = (Value(-4.0), Value(2.0)), (engine.Value(-4.0), engine.Value(2.0))
    result, expected = expression(*ours), expression(*theirs)
    result.backward()
    expected.backward()
    assert result.data == pytest.approx(expected.data, rel=1e-14)
    assert [x.grad for x in ours] == pytest.approx([x.grad for x in theirs], rel=1e-13)


def test_a_second_backward_differs_from_micrograd() -> None:
    """micrograd takes .grad for the adjoint of the walk; torch and this course keep the two apart."""
    engine = pytest.importorskip("micrograd.engine", reason="micrograd is an optional peer: pip install -e '.[peers]'")
    grads = {}
    for name, kind in {"ours": Value, "torch": torch_scalar, "micrograd": engine.Value}.items():
        a, b, c = kind(2.0), kind(-3.0), kind(0.5)
        z = (a * b) * c
        for _ in range(2):
            z.backward(retain_graph=True) if name == "torch" else z.backward()
        grads[name] = float(a.grad)
    assert grads == {"ours": -3.0, "torch": -3.0, "micrograd": -4.5}


# -- layers -----------------------------------------------------------------------------------------------------------

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "gelu": torch.nn.GELU}


def torch_mlp(params: list[tuple[np.ndarray, np.ndarray]], activation: str) -> torch.nn.Sequential:
    """nn.Linear layers with these parameters and nn activations between them."""
    modules: list[torch.nn.Module] = []
    for W, b in params:
        linear = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(W))
            linear.bias.copy_(torch.from_numpy(b))
        modules += [linear, ACTIVATIONS[activation]()]
    return torch.nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("sizes", [(5, 3), (17, 100, 15, 10), (1, 1, 1, 1, 1), (127, 129, 3)])
def test_mlp_against_torch(activation: str, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    params = training.init_params(sizes, "relu", rng)
    params = [(W, rng.standard_normal(b.shape)) for W, b in params]
    x = rng.standard_normal((13, sizes[0])) + 1.0
    labels = rng.integers(0, sizes[-1], 13)
    labels[[2, 7]] = -100

    logits, cache = mlp.mlp_forward(params, x, activation)
    loss, dlogits = mlp.softmax_cross_entropy(logits, labels)
    dparams, dx = mlp.mlp_backward(params, cache, dlogits)

    network, leaf = torch_mlp(params, activation), torch_array(x)
    expected = F.cross_entropy(network(leaf), torch.from_numpy(labels), ignore_index=-100)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12, abs=1e-14)
    linears = [module for module in network if isinstance(module, torch.nn.Linear)]
    for (dW, db), linear in zip(dparams, linears, strict=True):
        torch.testing.assert_close(torch.from_numpy(dW), linear.weight.grad, rtol=1e-10, atol=1e-13)
        torch.testing.assert_close(torch.from_numpy(db), linear.bias.grad, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(torch.from_numpy(dx), leaf.grad, rtol=1e-10, atol=1e-13)


def test_all_rows_ignored_differs_from_torch() -> None:
    """torch divides 0 by 0; this course returns 0.0 and zeros."""
    logits, labels = np.ones((3, 4)), np.full(3, -100)
    loss, dlogits = mlp.softmax_cross_entropy(logits, labels)
    assert (loss, dlogits.any()) == (0.0, False)
    assert math.isnan(F.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels)).item())


def test_gelu_is_torchs_default_not_its_tanh_form() -> None:
    x = np.linspace(-6.0, 6.0, 1001)[:, None]
    identity = [(np.ones((1, 1)), np.zeros(1))] * 2
    got = torch.from_numpy(mlp.mlp_forward(identity, x, "gelu")[0])
    torch.testing.assert_close(got, F.gelu(torch.from_numpy(x)), rtol=1e-13, atol=1e-15)
    apart = (got - F.gelu(torch.from_numpy(x), approximate="tanh")).abs().max().item()
    assert 4e-4 < apart < 5e-4


# -- tensors ----------------------------------------------------------------------------------------------------------


def test_a_transformer_block_against_torch() -> None:
    """Embedding, layer norm, two causal heads, MLP, residuals, cross-entropy: torch's own functions beside ours."""
    rng = np.random.default_rng(0)
    B, T, C, H, V = 2, 7, 8, 2, 11
    shapes = {"E": (V, C), "P": (T, C), "g": (C,), "b": (C,), "qkv": (C, 3 * C), "o": (C, C), "up": (C, 4 * C)}
    shapes |= {"bu": (4 * C,), "down": (4 * C, C), "head": (C, V)}
    weights = {name: rng.standard_normal(shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    ids, targets = rng.integers(0, V, (B, T)), rng.integers(0, V, (B, T))

    t = {name: torch_array(w) for name, w in weights.items()}
    x = F.embedding(torch.from_numpy(ids), t["E"]) + t["P"]
    h = F.layer_norm(x, (C,), t["g"], t["b"], eps=1e-5)
    q, k, v = (part.reshape(B, T, H, C // H).transpose(1, 2) for part in (h @ t["qkv"]).split(C, dim=-1))
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + heads.transpose(1, 2).reshape(B, T, C) @ t["o"]
    x = x + F.relu(x @ t["up"] + t["bu"]) @ t["down"]
    expected = F.cross_entropy((x @ t["head"]).reshape(-1, V), torch.from_numpy(targets).reshape(-1))
    expected.backward()

    n = {name: Tensor(w, requires_grad=True) for name, w in weights.items()}
    y = n["E"][ids] + n["P"]
    centred = y - y.mean(-1, keepdims=True)
    h = centred * ((centred * centred).mean(-1, keepdims=True) + 1e-5) ** -0.5 * n["g"] + n["b"]
    # (B, T, 3C) -> (3, B, H, T, C / H), taken apart along the first axis.
    parts = (h @ n["qkv"]).reshape(B, T, 3, H, C // H).transpose(2, 0, 3, 1, 4)
    q, k, v = (parts[np.array(i)] for i in range(3))
    s = q @ k.transpose(0, 1, 3, 2) / (C // H) ** 0.5 + np.where(np.tri(T, dtype=bool), 0.0, -1e30)
    w = (s - s.max(-1, keepdims=True)).exp()
    heads = w / w.sum(-1, keepdims=True) @ v
    y = y + heads.transpose(0, 2, 1, 3).reshape(B, T, C) @ n["o"]
    y = y + (y @ n["up"] + n["bu"]).relu() @ n["down"]
    z = (y @ n["head"]).reshape(-1, V)
    z = z - z.max(-1, keepdims=True)
    log_p = z - z.exp().sum(-1, keepdims=True).log()
    loss = -(log_p * np.eye(V)[targets.reshape(-1)]).sum(-1).mean()
    loss.backward()

    assert float(loss.data) == pytest.approx(expected.item(), rel=1e-12)
    for name in weights:
        torch.testing.assert_close(torch.from_numpy(n[name].grad), t[name].grad, rtol=1e-9, atol=1e-12, msg=name)


def test_ties_are_shared_as_by_amax_and_not_as_by_max_with_an_axis() -> None:
    data = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    ours = Tensor(data, requires_grad=True)
    ours.max(axis=1).sum().backward()
    amax, indexed = torch_array(data), torch_array(data)
    amax.amax(1).sum().backward()
    indexed.max(1).values.sum().backward()
    torch.testing.assert_close(torch.from_numpy(ours.grad), amax.grad)
    assert not torch.equal(torch.from_numpy(ours.grad), indexed.grad)


def test_transpose_is_torchs_permute() -> None:
    data = np.arange(24.0).reshape(2, 3, 4)
    ours = Tensor(data).transpose(1, 2, 0).data
    assert np.array_equal(ours, torch.from_numpy(data).permute(1, 2, 0).numpy())
    assert np.array_equal(ours, data.transpose(1, 2, 0))


# -- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nonlinearity", ["relu", "tanh", "linear"])
def test_initial_spread_is_that_of_kaiming_normal(nonlinearity: str) -> None:
    W = training.init_params((300, 400, 2), nonlinearity, np.random.default_rng(0))[0][0]
    expected = torch.empty(400, 300, dtype=torch.float64)
    torch.nn.init.kaiming_normal_(expected, nonlinearity=nonlinearity, generator=torch.Generator().manual_seed(0))
    assert W.std() == pytest.approx(expected.std().item(), rel=0.02)
    assert W.std() == pytest.approx(torch.nn.init.calculate_gain(nonlinearity) / 300**0.5, rel=0.012)
    # nn.Linear's own default is another: uniform, variance 1 / (3 fan_in), whatever follows.
    assert torch.nn.Linear(300, 400).weight.std().item() == pytest.approx((1 / 900) ** 0.5, rel=0.02)


@pytest.mark.parametrize("biases_decay", [False, True])
def test_training_against_torch_sgd(biases_decay: bool) -> None:
    """The same minibatches through torch.optim.SGD; equal only if the biases stand in a group without decay."""
    sizes, epochs, batch = (3, 8, 4), 5, 6
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}
    rng = np.random.default_rng(1)
    params = [(W, rng.standard_normal(b.shape)) for W, b in training.init_params(sizes, "tanh", rng)]
    x, y = rng.standard_normal((20, 3)), rng.integers(0, 4, 20)
    got, losses = training.train(
        params, x, y, epochs=epochs, batch=batch, nonlinearity="tanh", rng=np.random.default_rng(2), **options
    )

    network = torch_mlp(params, "tanh")
    weights = [p for p in network.parameters() if p.ndim == 2]
    biases = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(network.parameters() if biases_decay else groups, **options)
    rng = np.random.default_rng(2)
    expected = []
    for _ in range(epochs):
        for rows in training.minibatches(20, batch, rng):
            loss = F.cross_entropy(network(torch.from_numpy(x[rows])), torch.from_numpy(y[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
    assert len(losses) == 20
    same = np.allclose(losses, expected, rtol=1e-9, atol=0.0)
    assert same is not biases_decay
    if not biases_decay:
        for ours, theirs in zip([p for layer in got for p in layer], network.parameters(), strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)
