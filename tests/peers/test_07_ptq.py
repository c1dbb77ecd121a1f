"""Chapter 4.7 against neural-compressor's GPTQ, torchao's AWQ, and OBQ in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import solution
from torch import Tensor

CHAPTER = "04_kernels/07_ptq"
NO_NEURAL_COMPRESSOR = "neural-compressor is an optional peer: pip install -e '.[peers]'"
NO_TORCHAO = "torchao is an optional peer: pip install -e '.[peers]'"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """neural-compressor leaves a folder wherever it runs."""
    monkeypatch.chdir(tmp_path)


obq = solution(CHAPTER, "obq")
gptq = solution(CHAPTER, "gptq")
awq = solution(CHAPTER, "awq")


def layer(
    seed: int, out: int = 48, n: int = 96, tokens: int = 256, dead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Weights (out, n) and correlated inputs (tokens, n) whose channels differ in size; float32."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, n, generator=generator) @ torch.randn(n, n, generator=generator)
    x = x * torch.exp(torch.randn(n, generator=generator))
    x[:, list(dead)] = 0.0
    return torch.randn(out, n, generator=generator), x


def loss(w: Tensor, q: Tensor, x: Tensor) -> float:
    return float((x.double() @ (w - q).double().T).square().sum())


# -- OBQ ------------------------------------------------------------------------------------------------------------


def test_gptq_is_obq_in_a_fixed_order() -> None:
    """The chapter's two ways to the same row: eliminations one by one, and one Cholesky factor for all."""
    w, x = (t.double() for t in layer(0, out=6, n=40))
    h = gptq.hessian([x])
    for act_order in (False, True):
        q = gptq.gptq(w, h, damp=0.0, block=16, act_order=act_order)
        order = h.diagonal().argsort(descending=True, stable=True) if act_order else torch.arange(40)
        for row, codes, scale, zero in zip(w, q.codes, q.scale[:, 0], q.zero[:, 0], strict=True):
            now, hinv = row[order].clone(), torch.linalg.inv(h[order][:, order])
            for j in range(40):
                value = obq.round_to_grid(now[j : j + 1], float(scale), int(zero), 4)
                now[j:] -= (now[j] - value) / hinv[0, 0] * hinv[0]
                now[j] = value
                hinv = obq.eliminate(hinv, 0)
            assert torch.equal((now / scale + zero).round().to(torch.uint8), codes[order])


def test_orders_on_the_same_grids() -> None:
    """Losses as shares of rounding's, in float64, channels of very different size: largest channel first is best, and
    cheapest weight first (OBQ) worst, since it leaves the large channels to the end, where nobody is left to repair.
    Without damping the best order ends worse than rounding: small channels, taken last, run off their grid."""
    orders: dict[str, list[float]] = {"greedy": [], "natural": [], "by size": [], "by size, undamped": []}
    for seed in range(3):
        w, x = (t.double() for t in layer(seed, out=8, n=48))
        h = gptq.hessian([x])
        q = gptq.gptq(w, h)
        grids = list(zip(q.scale[:, 0].tolist(), q.zero[:, 0].int().tolist(), strict=True))
        damped = h + 0.01 * h.diagonal().mean() * torch.eye(48, dtype=torch.float64)
        rounded = [obq.round_to_grid(row, s, z, 4) for row, (s, z) in zip(w, grids, strict=True)]
        greedy = [obq.obq_row(row, damped, scale=s, zero=z, bits=4)[0] for row, (s, z) in zip(w, grids, strict=True)]
        candidates = {
            "greedy": torch.stack(greedy),
            "natural": gptq.dequantize(q, None),
            "by size": gptq.dequantize(gptq.gptq(w, h, act_order=True), None),
            "by size, undamped": gptq.dequantize(gptq.gptq(w, h, damp=0.0, act_order=True), None),
        }
        for name, values in candidates.items():
            orders[name].append(loss(w, values, x) / loss(w, torch.stack(rounded), x))
    mean = {name: sum(shares) / len(shares) for name, shares in orders.items()}
    assert mean["by size"] < 0.4 < mean["natural"] < 0.7 < mean["greedy"] < 0.95
    assert mean["by size, undamped"] > 1.0


# -- neural-compressor ----------------------------------------------------------------------------------------------


@dataclass
class Published:
    values: Tensor
    scale: Tensor
    zero: Tensor


def neural_compressor(
    w: Tensor,
    x: Tensor,
    *,
    bits: int = 4,
    group_size: int = -1,
    block: int = 128,
    damp: float = 0.01,
    act_order: bool = False,
    static_groups: bool = False,
) -> Published:
    """neural-compressor's GPTQ on one linear layer."""
    module = pytest.importorskip("neural_compressor.torch.algorithms.weight_only.gptq", reason=NO_NEURAL_COMPRESSOR)
    solver = module.GPTQ(torch.nn.Linear(w.shape[1], w.shape[0], bias=False), w)
    solver.quantizer.configure(
        {
            "dtype": "int",
            "bits": bits,
            "sym": False,
            "perchannel": True,
            "mse": False,
            "use_double_quant": False,
            "double_quant_sym": False,
        }
    )
    solver.add_batch(x[None], None)
    scale, _, zero, values = solver.fasterquant(
        w.clone(),
        blocksize=block,
        percdamp=damp,
        groupsize=group_size,
        act_order=act_order,
        static_groups=static_groups,
    )
    return Published(values, scale, zero)


def agree(ours: Any, published: Published, w: Tensor, group_size: int | None) -> None:
    """The same weights, but for a few that float32 rounded to the other neighbour, and their repairs."""
    values = gptq.dequantize(ours, group_size)
    same = (values - published.values).abs() <= 1e-4 * w.abs().max()
    assert float(same.double().mean()) >= 0.99


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("act_order", [False, True])
def test_one_group_equals_neural_compressor(bits: int, act_order: bool) -> None:
    """float32, one group, several blocks, both orders, with dead columns."""
    for seed in range(3):
        w, x = layer(seed, dead=(3, 40))
        w[:, [3, 40]] = 0.0  # see test_a_difference_in_dead_columns
        h = gptq.hessian([x])
        ours = gptq.gptq(w, h, bits=bits, block=32, act_order=act_order)
        published = neural_compressor(w, x, bits=bits, block=32, act_order=act_order)
        torch.testing.assert_close(ours.scale, published.scale, rtol=1e-5, atol=0)
        assert torch.equal(ours.zero, published.zero)
        agree(ours, published, w, None)


def test_groups_equal_neural_compressor() -> None:
    """Groups that begin where blocks begin, and static groups with act_order: the same grids and weights."""
    for seed in range(3):
        w, x = layer(seed)
        h = gptq.hessian([x])
        ours = gptq.gptq(w, h, group_size=32, block=32)
        published = neural_compressor(w, x, group_size=32, block=32)
        torch.testing.assert_close(ours.scale, published.scale, rtol=1e-4, atol=1e-6)
        agree(ours, published, w, 32)
        ours = gptq.gptq(w, h, group_size=32, act_order=True)
        agree(ours, neural_compressor(w, x, group_size=32, act_order=True, static_groups=True), w, 32)


def test_a_difference_in_groups_inside_a_block() -> None:
    """A group that begins inside a block: neural-compressor, like the paper's own code, takes its grid from weights
    that the repairs of this block have not reached; we, from the repaired ones, so that the block does not matter."""
    w, x = layer(0)
    h = gptq.hessian([x])
    ours = gptq.gptq(w, h, group_size=16, block=48)
    published = neural_compressor(w, x, group_size=16, block=48)
    stale = torch.stack([part.amax(1).clamp(min=0) - part.amin(1).clamp(max=0) for part in w.split(16, dim=1)], dim=1)
    torch.testing.assert_close(published.scale[:, :3], stale[:, :3] / 15, rtol=1e-5, atol=0)  # the first block
    torch.testing.assert_close(ours.scale[:, :1], published.scale[:, :1], rtol=1e-5, atol=0)
    assert not torch.allclose(ours.scale[:, 1:], published.scale[:, 1:], rtol=1e-2)
    for block in (1, 7, 128):
        assert torch.equal(gptq.gptq(w, h, group_size=16, block=block).codes, ours.codes)
    agree(ours, neural_compressor(w, x, group_size=16, block=16), w, 16)


def test_a_difference_in_the_hessian() -> None:
    """neural-compressor divides by the number of batches, we by the number of tokens. A common factor of h cancels in
    every repair, and the damping is relative to h."""
    module = pytest.importorskip("neural_compressor.torch.algorithms.weight_only.gptq", reason=NO_NEURAL_COMPRESSOR)
    w, x = layer(1, tokens=240)
    solver = module.GPTQ(torch.nn.Linear(96, 48, bias=False), w)
    for batch in x.split(60):
        solver.add_batch(batch[None], None)
    ours = gptq.hessian(x.split(60))
    torch.testing.assert_close(solver.H.double() / 60, ours, rtol=1e-4, atol=1e-4 * float(ours.diagonal().mean()))
    w = w.double()
    assert torch.equal(gptq.gptq(w, ours).codes, gptq.gptq(w, 60 * ours).codes)


def test_a_difference_in_dead_columns() -> None:
    """neural-compressor sets the weights of dead columns to 0 after it has found the grid of a single group, we before:
    a weight that no input ever meets does not widen our grid."""
    w, x = layer(3, dead=(3, 40))
    w[:, 3] = 50.0
    ours, published = gptq.gptq(w, gptq.hessian([x])), neural_compressor(w, x)
    assert bool((ours.scale < 0.2 * published.scale).all())
    assert not gptq.dequantize(ours, None)[:, [3, 40]].any()
    assert not published.values[:, [3, 40]].any()


def test_a_difference_in_a_row_of_zeros() -> None:
    """neural-compressor gives a row of zeros the range -1 .. 1, we the scale 1; both come out as zeros."""
    w, x = layer(2)
    w[5] = 0.0
    ours, published = gptq.gptq(w, gptq.hessian([x])), neural_compressor(w, x)
    assert float(ours.scale[5]) == 1.0
    torch.testing.assert_close(published.scale[5], torch.tensor([2 / 15]))
    agree(ours, published, w, None)
    assert not gptq.dequantize(ours, None)[5].any()
    assert not published.values[5].any()


# -- torchao --------------------------------------------------------------------------------------------------------


def test_scale_search_equals_torchao() -> None:
    """torchao's AWQObserver with our group_quantize: the same s, from float64 inputs."""
    core = pytest.importorskip("torchao.prototype.awq.core", reason=NO_TORCHAO)
    from torchao.core.config import AOBaseConfig

    @dataclass
    class GroupQuantize(AOBaseConfig):
        bits: int
        group: int

    def handler(module: Any, config: GroupQuantize) -> Any:
        module.weight = awq.group_quantize(module.weight, config.bits, config.group)
        return module

    core._QUANTIZE_CONFIG_HANDLER[GroupQuantize] = handler
    try:
        alphas = set()
        for seed, grid in ((0, 20), (1, 20), (2, 7), (3, 20)):
            w, x = (t.double() for t in layer(seed, out=24, n=64))
            observer = core.AWQObserver(w, None, GroupQuantize(3, 16), grid)
            for batch in x.split(100):
                observer(batch, None)
            s, alpha = awq.search_scale([w], x, bits=3, group=16, grid=grid)
            torch.testing.assert_close(observer.calculate_qparams(), s, rtol=1e-9, atol=0)
            alphas.add(alpha)
        assert len(alphas) > 1
    finally:
        del core._QUANTIZE_CONFIG_HANDLER[GroupQuantize]


def test_group_quantize_equals_torch() -> None:
    """torch.fake_quantize_per_channel_affine with the same scales and zero-points, groups as channels."""
    w, _ = layer(4, out=24, n=64)
    w[:4] = w[:4].abs() + 1.0  # groups without a 0 in their range
    rows = w.reshape(-1, 16)
    lo, hi = rows.amin(1), rows.amax(1)
    scale = ((hi - lo) / 15).clamp(min=1e-5)
    zero = (-(lo / scale).round()).clamp(0, 15)
    expected = torch.fake_quantize_per_channel_affine(rows, scale, zero, 0, 0, 15).reshape(w.shape)
    torch.testing.assert_close(awq.group_quantize(w, 4, 16), expected, rtol=1e-6, atol=1e-6)
