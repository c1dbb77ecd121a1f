"""Hidden tests: FlashAttention forward as one Triton kernel."""

import torch

from grader.testing import (
    booleans,
    close,
    compiled_for_sm_90,
    equal,
    given,
    integers,
    interpreted,
    launches_only,
    points,
    require,
    sampled_from,
)

INF = float("inf")
SHAPES = [  # B, H, HK, N, M, D
    (2, 4, 2, 130, 130, 64),
    (1, 2, 2, 100, 170, 32),
    (1, 2, 1, 90, 50, 64),
    (1, 1, 1, 70, 130, 128),
    (1, 3, 1, 1, 77, 64),
]


def inputs(B, H, HK, N, M, D, dtype=torch.float32):
    q, k, v = torch.randn(B, H, N, D), torch.randn(B, HK, M, D), torch.randn(B, HK, M, D)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def dense(q, k, v, causal=False, scale=None):
    """o and lse in float64, with the whole matrix of scores."""
    q, k, v = q.double(), k.double(), v.double()
    (_, H, N, D), (HK, M) = q.shape, k.shape[1:3]
    k, v = (x.repeat_interleave(H // HK, dim=1) for x in (k, v))
    scores = (D**-0.5 if scale is None else scale) * (q @ k.transpose(-1, -2))
    if causal:
        i, j = torch.arange(N)[:, None], torch.arange(M)
        scores = scores.masked_fill(j > i + M - N, -INF)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v, scores.logsumexp(-1)


def check_attention(submission, q, k, v, *, causal=False, scale=None, rtol=None, **blocks):
    rtol = rtol or (1e-5 if q.dtype == torch.float32 else 2e-3)
    result = submission.flash_attention(q, k, v, causal=causal, scale=scale, **blocks)
    require(type(result) is tuple and len(result) == 2, "a tuple (o, lse)", got=result)
    o, lse = result
    expected = dense(q, k, v, causal, scale)
    close(o, expected[0], rtol=rtol, dtype=q.dtype, what="o")
    require(o.is_contiguous(), "o is contiguous", got=o.stride())
    close(lse, expected[1], rtol=1e-5, atol=1e-5, dtype=torch.float32, what="lse")


def visible_keys(N, M, block_m, causal):
    """For each query tile the number of keys that some row of it sees: by looking at its last row."""
    if not causal:
        return [M] * -(-N // block_m)
    return [max(0, min(start + block_m, N) + M - N) for start in range(0, N, block_m)]


@points(3)
def test_matches_float64_oracle(submission):
    """Five shapes, causal and not, float32 and float16, agree with dense attention in float64; so does lse."""
    with interpreted(submission, trace=False):
        for shape in SHAPES:
            for causal in (False, True):
                for dtype in (torch.float32, torch.float16):
                    check_attention(submission, *inputs(*shape, dtype=dtype), causal=causal, block_m=64, block_n=64)
        check_attention(submission, *inputs(1, 2, 1, 40, 50, 64))  # blocks of the learner's choice
        check_attention(submission, *inputs(1, 2, 1, 40, 50, 128, dtype=torch.float16), causal=True)


@points(2)
@given(
    heads=sampled_from([(1, 1), (2, 1), (4, 2)]),
    N=integers(1, 40),
    M=integers(1, 40),
    D=sampled_from([32, 64]),
    causal=booleans(),
    scale=sampled_from([None, 0.2, 1.0, 0.0, -0.3]),
    examples=12,
)
def test_any_lengths(submission, heads, N, M, D, causal, scale):
    """Any numbers of queries and keys, any group, any scale."""
    with interpreted(submission, trace=False):
        q, k, v = inputs(1, *heads, N, M, D)
        check_attention(submission, q, k, v, causal=causal, scale=scale, block_m=32, block_n=16)


@points(2)
def test_masked_rows(submission):
    """More queries than keys, causal: the first N - M rows are exactly 0 with lse -inf, and nothing is NaN."""
    for N, M in [(60, 35), (33, 1)]:
        q, k, v = inputs(1, 2, 1, N, M, 32)
        with interpreted(submission, trace=False):
            o, lse = submission.flash_attention(q, k, v, causal=True, block_m=16, block_n=16)
        blind = N - M
        equal(o[:, :, :blind], torch.zeros(1, 2, blind, 32), what="o of the rows that see nothing")
        equal(lse[:, :, :blind], torch.full((1, 2, blind), -INF), what="lse of the rows that see nothing")
        expected = dense(q, k, v, causal=True)
        close(o, expected[0], rtol=1e-5, what="o")
        close(lse, expected[1], rtol=1e-5, atol=1e-5, what="lse")


@points(2)
def test_strided_inputs(submission):
    """Transposed (B, N, H, D) tensors, slices of one qkv tensor, k and v laid out unlike each other: read in place."""
    q, k, v = (torch.randn(2, n, h, 32).transpose(1, 2) for n, h in [(30, 4), (40, 2), (40, 2)])
    qkv = torch.randn(1, 45, 6, 64)  # per token 3 query heads, and 1 head each of k and v, and one that is not used
    parts = [part.transpose(1, 2) for part in qkv.split([3, 1, 1, 1], dim=2)]
    with interpreted(submission, trace=False) as run:
        check_attention(submission, q, k, v, causal=True, block_m=32, block_n=16)
        check_attention(submission, *parts[:3], block_m=32, block_n=32)
        cache = torch.randn(2, 3, 50, 64)
        check_attention(submission, q, k, cache[:, 1:, 10:, 32:], block_m=32, block_n=32)
        check_attention(submission, q, cache[:, :2, :40, :32], v, block_m=32, block_n=32)
    launches_only(run, "q", "k", "v")


@points(2)
def test_blocks_are_irrelevant(submission):
    """Blocks from (16, 16) to (128, 16) give the same result, also where one key begins a tile (M = N + 1)."""
    q, k, v = inputs(1, 2, 1, 40, 70, 64)
    with interpreted(submission, trace=False):
        for block_m, block_n in [(16, 16), (64, 32), (32, 64), (128, 16)]:
            check_attention(submission, q, k, v, causal=True, block_m=block_m, block_n=block_n)
        for block_m, block_n in [(16, 64), (64, 16)]:
            check_attention(submission, q, k, v, block_m=block_m, block_n=block_n)
        for N, M in [(48, 49), (33, 18), (64, 80)]:
            for block_m, block_n in [(16, 16), (32, 16)]:
                check_attention(submission, *inputs(1, 1, 1, N, M, 32), causal=True, block_m=block_m, block_n=block_n)


@points(2)
def test_large_scores(submission):
    """Scores in the thousands stay finite and within 5e-3; the scale, also 0, reaches both o and lse."""
    q, k, v = inputs(1, 2, 1, 30, 40, 64)
    with interpreted(submission, trace=False):
        for causal in (False, True):
            check_attention(submission, 1e3 * q, k, v, causal=causal, rtol=5e-3)
            check_attention(submission, q, k, v, causal=causal, scale=-0.2 if causal else 0.2)
            check_attention(submission, q, k, v, causal=causal, scale=0.0)
        check_attention(submission, q, k + 40 * q.mean(2, keepdim=True)[:, :1], v, rtol=1e-4)


@points(2)
def test_wide_state(submission):
    """float16 input, one tile with values of 64 and a hundred with 1/64: the small ones do not vanish."""
    q, k = torch.zeros(1, 1, 2, 32, dtype=torch.float16), torch.zeros(1, 1, 6464, 32, dtype=torch.float16)
    v = torch.full((1, 1, 6464, 32), 1 / 64, dtype=torch.float16)
    v[:, :, :64] = 64.0
    with interpreted(submission, trace=False):
        check_attention(submission, q, k, v, block_m=16, block_n=64, rtol=1e-3)


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    for hostile, causal in [(True, True), ("random", False)]:
        q, k, v = inputs(1, 2, 1, 50, 41, 32)
        with interpreted(submission, hostile=hostile, trace=False):
            check_attention(submission, q, k, v, causal=causal, block_m=16, block_n=32)


def test_only_the_kernel_computes(submission):
    """The wrapper allocates, takes views and launches: no copy of an input, not even to expand KV heads."""
    q, k, v = inputs(1, 4, 2, 40, 50, 32)
    with interpreted(submission, trace=False) as run:
        submission.flash_attention(q, k, v, causal=True)
    launches_only(run, "q", "k", "v")


@points(2)
def test_compiles_for_sm_90(submission):
    """float16 with blocks (128, 64) compiles for an H100: shared memory fits, wgmma is used."""
    for D, causal in [(64, True), (128, False)]:
        q, k = torch.zeros(1, 8, 256, D, dtype=torch.float16), torch.zeros(1, 2, 256, D, dtype=torch.float16)
        compiled = compiled_for_sm_90(
            submission, "flash_attention", q, k, k.clone(), causal=causal, block_m=128, block_n=64
        )
        equal(len(compiled), 1, what="launches")
        for launch in compiled:
            require(launch.shared <= 232448, f"{launch.kernel}: shared memory fits", got=launch.shared, expected=232448)
            require(launch.wgmma, f"{launch.kernel} uses Hopper's tensor cores (wgmma)", got=launch.wgmma)


def test_full_precision(submission):
    """float32 operands are not rounded to TF32: the compiled kernel holds no such instruction."""
    q = torch.zeros(1, 1, 64, 32)
    compiled = compiled_for_sm_90(
        submission, "flash_attention", q, q.clone(), q.clone(), causal=True, block_m=32, block_n=32
    )
    for launch in compiled:
        require(not launch.ptx_has("tf32"), f"{launch.kernel} multiplies float32 in full precision, not in TF32")


@points(3)
def test_cost_bytes(submission):
    """q once, of k and v only the visible tiles per query head, o and lse once."""
    for (H, HK, N, M, D), (block_m, block_n) in [((4, 2, 60, 60, 32), (32, 16)), ((2, 1, 40, 90, 64), (16, 32))]:
        for causal in (True, False):
            q, k, v = inputs(1, H, HK, N, M, D)
            with interpreted(submission, trace=False) as run:
                submission.flash_attention(q, k, v, causal=causal, block_m=block_m, block_n=block_n)
            keys = [min(M, -(-seen // block_n) * block_n) for seen in visible_keys(N, M, block_m, causal)]
            run.cost("launches").exactly(1, "one kernel")
            run.cost("loaded", "q").at_most(4 * H * N * D, "every query once")
            run.cost("loaded", "k").at_most(4 * H * sum(keys) * D, "the key tiles that a query tile can see")
            run.cost("loaded", "v").at_most(4 * H * sum(keys) * D, "the value tiles that a query tile can see")
            run.cost("stored", "result[0]").exactly(4 * H * N * D, "o once")
            run.cost("stored", "result[1]").exactly(4 * H * N, "lse once")
            run.cost("stored").exactly(4 * H * N * (D + 1), "o and lse, and nothing else")


@points(3)
def test_cost_programs_and_dots(submission):
    """One program per query tile and head; two tl.dot per visited tile; no block larger than a tile."""
    for (H, HK, N, M, D), (block_m, block_n) in [((2, 2, 90, 90, 32), (16, 32)), ((2, 1, 60, 40, 32), (32, 16))]:
        for causal in (True, False):
            q, k, v = inputs(1, H, HK, N, M, D)
            with interpreted(submission, trace=False) as run:
                submission.flash_attention(q, k, v, causal=causal, block_m=block_m, block_n=block_n)
            tiles = sum(-(-seen // block_n) for seen in visible_keys(N, M, block_m, causal)) * H
            run.cost("programs").exactly(-(-N // block_m) * H, "query tiles times heads")
            run.cost("dots").exactly(2 * tiles, "two per visited tile")
            run.cost("dot_flops").exactly(4 * tiles * block_m * block_n * D, "blocks as given")
            largest = max(block_m * block_n, block_m * D, block_n * D)
            run.cost("largest_block").at_most(largest, "one tile of q, k, v or scores")
