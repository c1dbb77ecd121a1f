"""Hidden tests: bias-GELU and RoPE in place, as Triton kernels."""

import torch

from grader.testing import (
    booleans,
    close,
    compiled_for_sm_90,
    equal,
    fresh,
    given,
    in_place,
    integers,
    interpreted,
    launches_only,
    points,
    require,
    sampled_from,
    tensors,
)

SPILLS = 128  # bytes per thread


def gelu(x, bias):
    return torch.nn.functional.gelu(x.double() + bias.double())


def check_gelu(submission, x, bias):
    """1 + erf cancels below -1, so float32 is allowed an absolute error there; float16 rounds once more at the end."""
    rtol = 1e-6 if x.dtype == torch.float32 else 5e-4
    close(submission.bias_gelu(x, bias), gelu(x, bias), rtol=rtol, atol=1e-6, by="element", dtype=x.dtype)


def rotated(x, angles, sign=1.0):
    """x (tokens, heads, D) turned by angles (tokens, D // 2): a + ib times exp(i * angle), in float64."""
    a, b = x.double().chunk(2, dim=-1)
    turn = torch.polar(torch.ones_like(angles).double(), sign * angles.double())
    turned = torch.complex(a, b) * turn[:, None]
    return torch.cat([turned.real, turned.imag], dim=-1)


def rope(submission, q, k, angles, **options):
    result = in_place(submission.rope_, "q", "k")(q, k, angles.cos(), angles.sin(), **options)
    require(result is None, "rope_ returns None: it changes q and k", got=result)


def qkv_views(tokens, q_heads, k_heads, head_dim, dtype=torch.float32):
    """One fused tensor, and q, k and v as views of it."""
    fused = torch.randn(tokens, (q_heads + 2 * k_heads) * head_dim).to(dtype)
    parts = fused.split([q_heads * head_dim, k_heads * head_dim, k_heads * head_dim], dim=1)
    q, k, v = (part.view(tokens, -1, head_dim) for part in parts)
    return fused, q, k, v


def angles_for(tokens, head_dim):
    return torch.rand(tokens, head_dim // 2) * 6.25


def test_worked_example(submission):
    """gelu of 0, 1 and -1, and one head [1, 2, 3, 4] turned by a quarter and by nothing."""
    with interpreted(submission, trace=False):
        close(submission.bias_gelu(torch.tensor([0.0, 1.0, -1.0]), torch.zeros(3)), [0.0, 0.8413447, -0.1586553])
        q, k = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), torch.tensor([[[10.0, 20.0, 30.0, 40.0]]])
        result = in_place(submission.rope_, "q", "k")(q, k, torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    require(result is None, "rope_ returns None: it changes q and k", got=result)
    close(q, [[[-3.0, 2.0, 1.0, 4.0]]], what="q")
    close(k, [[[-30.0, 20.0, 10.0, 40.0]]], what="k")


@points(2)
@given(x=tensors(rows=(1, 40), n=(1, 300)), half=booleans(), examples=15)
def test_matches_float64_oracle(submission, x, half):
    """bias_gelu agrees with float64 GELU on any sizes and values: 1e-6 in float32, 5e-4 in float16."""
    x = x.half() if half else x
    bias = torch.randn(x.shape[-1]).to(x.dtype)
    with interpreted(submission, trace=False):
        check_gelu(submission, x, bias)


def test_any_shape(submission):
    """Rows of 1, 7 and 1000, more leading axes, and many rows."""
    with interpreted(submission, trace=False):
        for shape in [(1,), (7,), (1000,), (3, 5, 130), (37, 1000), (3, 1030)]:
            for dtype in (torch.float32, torch.float16):
                check_gelu(submission, 2 * torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype))


def test_empty_input(submission):
    """An empty x gives an empty tensor, without a launch."""
    for shape in [(0,), (0, 5), (3, 0)]:
        with interpreted(submission, trace=False) as run:
            y = submission.bias_gelu(torch.empty(shape), torch.zeros(shape[-1]))
        equal(y, torch.empty(shape))
        equal(len(run.launches), 0, what="launches")


@points(2)
@given(
    q_heads=sampled_from([1, 3, 6, 8]),
    k_heads=sampled_from([1, 3, 6, 8]),
    head_dim=sampled_from([2, 64, 96, 128]),
    tokens=integers(1, 4),
    inverse=booleans(),
    half=booleans(),
    examples=20,
)
def test_rope_any_heads(submission, q_heads, k_heads, head_dim, tokens, inverse, half):
    """Rotation as multiplication by exp(i * angle), for any number of heads and any even D; inverse undoes it."""
    dtype, rtol = (torch.float16, 5e-4) if half else (torch.float32, 1e-6)
    q, k = torch.randn(tokens, q_heads, head_dim).to(dtype), torch.randn(tokens, k_heads, head_dim).to(dtype)
    angles = angles_for(tokens, head_dim)
    expected = [rotated(x, angles, -1.0 if inverse else 1.0) for x in (q, k)]
    with interpreted(submission, trace=False):
        rope(submission, q, k, angles, inverse=inverse)
    close(q, expected[0], rtol=rtol, atol=2e-6, dtype=dtype, what="q")
    close(k, expected[1], rtol=rtol, atol=2e-6, dtype=dtype, what="k")


def test_inverse_undoes_it(submission):
    """Forward and then inverse gives the start again, in both orders."""
    q, k, angles = torch.randn(3, 6, 96), torch.randn(3, 2, 96), angles_for(3, 96)
    start = q.clone(), k.clone()
    with interpreted(submission, trace=False):
        for first in (False, True):
            rope(submission, q, k, angles, inverse=first)
            rope(submission, q, k, angles, inverse=not first)
    close(q, start[0].double(), rtol=1e-6, atol=2e-6, what="q")
    close(k, start[1].double(), rtol=1e-6, atol=2e-6, what="k")


@points(2)
def test_views_of_qkv(submission):
    """q and k as views of one fused tensor are rotated where they lie; v does not change by a bit."""
    for tokens, q_heads, k_heads, head_dim, dtype in [(5, 6, 3, 96, torch.float32), (3, 8, 1, 64, torch.float16)]:
        _, q, k, v = qkv_views(tokens, q_heads, k_heads, head_dim, dtype)
        angles, before = angles_for(tokens, head_dim), v.clone()
        expected = rotated(q, angles), rotated(k, angles)
        with interpreted(submission, trace=False):
            rope(submission, q, k, angles)
        rtol = 1e-6 if dtype == torch.float32 else 5e-4
        close(q, expected[0], rtol=rtol, atol=2e-6, dtype=dtype, what="q")
        close(k, expected[1], rtol=rtol, atol=2e-6, dtype=dtype, what="k")
        equal(v, before, what="v")


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    x, bias = torch.randn(21, 230), torch.randn(230)
    for hostile in (True, "random"):
        with interpreted(submission, hostile=hostile, trace=False):
            check_gelu(submission, x, bias)
        _, q, k, _ = qkv_views(4, 3, 2, 96)
        angles = angles_for(4, 96)
        expected = rotated(q, angles), rotated(k, angles)
        with interpreted(submission, hostile=hostile, trace=False):
            rope(submission, q, k, angles)
        close(q, expected[0], rtol=1e-6, atol=2e-6, what="q")
        close(k, expected[1], rtol=1e-6, atol=2e-6, what="k")


def test_only_the_kernel_computes(submission):
    """The wrappers allocate, take views and launch: no torch arithmetic, no copy of an input."""
    with interpreted(submission, trace=False) as run:
        y = submission.bias_gelu(torch.randn(5, 70), torch.randn(70))
    fresh(y)
    launches_only(run, "x", "bias")
    _, q, k, _ = qkv_views(3, 2, 1, 64)
    with interpreted(submission, trace=False) as run:
        rope(submission, q, k, angles_for(3, 64))
    launches_only(run, "q", "k")


def test_compiles_for_sm_90(submission):
    """Every launch compiles for an H100, in bfloat16, and keeps its registers."""
    x, bias = torch.zeros(64, 1000, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.bfloat16)
    _, q, k, _ = qkv_views(16, 6, 2, 96, torch.bfloat16)
    cos, sin = torch.zeros(16, 48), torch.zeros(16, 48)
    for name, *arguments in [("bias_gelu", x, bias), ("rope_", q, k, cos, sin)]:
        compiled = compiled_for_sm_90(submission, name, *arguments)
        for launch in compiled:
            require(launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS)
            require(launch.shared <= 232448, f"{launch.kernel}: shared memory fits", got=launch.shared, expected=232448)


@points(2)
def test_cost_bias_gelu_bytes(submission):
    """One launch; x read once, the result written once and nothing else; at most one bias entry per element."""
    for shape, dtype in [((37, 1000), torch.float32), ((3, 5, 130), torch.float16)]:
        x, bias = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
        with interpreted(submission, trace=False) as run:
            submission.bias_gelu(x, bias)
        size = x.numel() * x.element_size()
        run.cost("launches").exactly(1, "bias and GELU are one pass")
        run.cost("loaded", "x").exactly(size, "every element of x once")
        run.cost("loaded", "bias").at_most(size, "one bias entry per element")
        run.cost("stored", "result").exactly(size, "every element of the result once")
        run.cost("stored").exactly(size, "nothing but the result")


@points(2)
def test_cost_rope_bytes(submission):
    """One launch; q and k read once and written once; cos and sin at most twice each, however many heads there are."""
    for tokens, q_heads, k_heads, head_dim in [(7, 8, 2, 64), (3, 6, 3, 96)]:
        _, q, k, _ = qkv_views(tokens, q_heads, k_heads, head_dim)
        with interpreted(submission, trace=False) as run:
            rope(submission, q, k, angles_for(tokens, head_dim))
        run.cost("launches").exactly(1, "all tokens, queries and keys")
        for name, heads in [("q", q_heads), ("k", k_heads)]:
            run.cost("loaded", name).exactly(4 * tokens * heads * head_dim, f"every element of {name} once")
            run.cost("stored", name).exactly(4 * tokens * heads * head_dim, f"every element of {name} once")
        for name in ("cos", "sin"):
            run.cost("loaded", name).at_most(2 * 4 * tokens * head_dim // 2, "twice, not once per head")


def test_cost_blocks_and_programs(submission):
    """No block above 16384 elements; enough work per program."""
    for shape in [(37, 1000), (2, 30000), (40000,), (2000, 20)]:
        x = torch.zeros(shape)
        with interpreted(submission, trace=False) as run:
            submission.bias_gelu(x, torch.zeros(shape[-1]))
        run.cost("largest_block").at_most(16384, "blocks stay on chip")
        run.cost("programs").at_most(max(64, x.numel() // 256), "256 elements or more for each program")
    with interpreted(submission, trace=False) as run:
        rope(submission, torch.randn(80, 8, 128), torch.randn(80, 8, 128), angles_for(80, 128))
    run.cost("largest_block").at_most(16384, "blocks stay on chip")
    run.cost("programs").at_most(80, "one program per token, or fewer")
