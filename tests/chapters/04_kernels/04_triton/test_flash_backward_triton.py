"""Hidden tests: FlashAttention backward in Triton, deterministic."""

import math

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
SPILLS = 128  # bytes per thread
SHAPES = [  # B, H, HK, N, M, D
    (1, 2, 2, 100, 100, 64),
    (1, 4, 2, 40, 90, 32),
    (1, 2, 1, 90, 50, 64),
    (1, 1, 1, 70, 66, 128),
]


def dense(q, k, v, causal, scale):
    """o, lse and the weights, with the whole matrix of scores."""
    (_, H, N, D), (HK, M) = q.shape, k.shape[1:3]
    k, v = (x.repeat_interleave(H // HK, dim=1) for x in (k, v))
    scores = (D**-0.5 if scale is None else scale) * (q @ k.transpose(-1, -2))
    if causal:
        i, j = torch.arange(N)[:, None], torch.arange(M)
        scores = scores.masked_fill(j > i + M - N, -INF)
    blind = (scores == -INF).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return weights @ v, scores.detach().logsumexp(-1), weights.detach()


class Case:
    """Inputs of one call, and the gradients by float64 autograd through dense attention."""

    def __init__(self, B, H, HK, N, M, D, causal=False, scale=None, dtype=torch.float32, far=False):
        """`far`: every score is moved by -150 * scale, with little effect on how much the gradients cancel."""
        self.options = {"causal": causal, "scale": scale}
        q, k, v = torch.randn(B, H, N, D), torch.randn(B, HK, M, D), torch.randn(B, HK, M, D)
        if far:
            q[..., 0], k[..., 0] = 100.0, -1.5
        self.q, self.k, self.v = q.to(dtype), k.to(dtype), v.to(dtype)
        # Not even as it comes from a (B, N, H * D) projection: a slice of something larger.
        self.do = torch.randn(B, N + 1, H + 1, D + 16).to(dtype).transpose(1, 2)[:, 1:, 1:, :D]
        wide = [x.double().requires_grad_() for x in (self.q, self.k, self.v)]
        o, lse, self.weights = dense(*wide, causal, scale)
        self.gradients = torch.autograd.grad(o, wide, self.do.double())
        self.o, self.lse = o.detach().to(dtype), lse.float()

    @property
    def arguments(self):
        return self.q, self.k, self.v, self.o, self.lse, self.do

    def run(self, submission, **blocks):
        result = submission.flash_attention_backward(*self.arguments, **self.options, **blocks)
        require(type(result) is tuple and len(result) == 3, "a tuple (dq, dk, dv)", got=result)
        return result

    def cancelled(self):
        """How large the terms of dq, dk and dv are before dP - delta and the sums cancel."""
        q, k, v, do = (x.double().abs() for x in (self.q, self.k, self.v, self.do))
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        terms = 2 * self.weights * (do @ v.transpose(-1, -2))
        scale = q.shape[-1] ** -0.5 if self.options["scale"] is None else abs(self.options["scale"])
        dk, dv = (wide.transpose(-1, -2) @ x * group for wide, x in ((scale * terms, q), (self.weights, do)))
        return [float(x.max()) for x in (scale * terms @ k, dk, dv)]

    def check(self, result, rtol=None):
        """Rows may cancel to nothing (dq of the first row of a causal square): small rows are given the rms of all.

        Where few keys have all the weight everything cancels, and the rounding of the terms is left.
        """
        rtol = rtol or (1e-5 if self.q.dtype == torch.float32 else 3e-3)
        for name, got, expected, term in zip(("dq", "dk", "dv"), result, self.gradients, self.cancelled(), strict=True):
            atol = rtol * float(expected.pow(2).mean().sqrt()) + 2e-7 * term
            close(got, expected, rtol=rtol, atol=atol, dtype=self.q.dtype, what=name)


def visited_pairs(N, M, block_m, block_n, causal):
    """(query tile, key tile) pairs in which some row sees some key: by looking at every row and key."""
    total = 0
    for i in range(0, N, block_m):
        for j in range(0, M, block_n):
            rows, keys = range(i, min(i + block_m, N)), range(j, min(j + block_n, M))
            total += not causal or any(key <= row + M - N for row in rows for key in keys)
    return total


@points(3)
def test_matches_autograd(submission):
    """Four shapes, causal or not, agree with float64 autograd: 1e-5 in float32, 3e-3 in float16."""
    with interpreted(submission, trace=False):
        for shape, causal in zip(SHAPES, (True, False, True, False), strict=True):
            case = Case(*shape, causal)
            case.check(case.run(submission, block_m=64, block_n=64))
        for shape, causal in [((1, 2, 1, 30, 70, 32), True), ((1, 2, 1, 70, 40, 64), False)]:
            case = Case(*shape, causal, dtype=torch.float16)
            case.check(case.run(submission, block_m=64, block_n=64))
        for dtype, causal in [(torch.float32, True), (torch.float16, False)]:
            case = Case(1, 2, 1, 20, 30, 128, causal, dtype=dtype)
            case.check(case.run(submission))  # blocks of the learner's choice


@points(2)
@given(
    heads=sampled_from([(1, 1), (2, 1), (3, 3)]),
    N=integers(1, 40),
    M=integers(1, 40),
    causal=booleans(),
    scale=sampled_from([None, 0.3, 1.0, 0.0, -0.3]),
    examples=6,
)
def test_any_lengths(submission, heads, N, M, causal, scale):
    """Any numbers of queries and keys, any group, any scale."""
    case = Case(1, *heads, N, M, 32, causal, scale)
    with interpreted(submission, trace=False):
        case.check(case.run(submission, block_m=32, block_n=16))


@points(2)
def test_masked_rows(submission):
    """Rows that see no key get a dq of zeros, and bring no NaN into dk or dv."""
    case = Case(2, 2, 1, 60, 35, 32, causal=True)
    with interpreted(submission, trace=False):
        dq, dk, dv = case.run(submission, block_m=32, block_n=16)
    equal(dq[:, :, :25], torch.zeros(2, 2, 25, 32), what="dq of the rows that see nothing")
    case.check((dq, dk, dv))


@points(2)
def test_uses_the_given_lse(submission):
    """P comes from the lse that is given: with lse + log 2 all three gradients are half as large."""
    case = Case(1, 2, 1, 20, 30, 32, causal=True)
    case.lse = case.lse + math.log(2.0)
    case.gradients = [gradient / 2 for gradient in case.gradients]
    with interpreted(submission, trace=False):
        case.check(case.run(submission))


@points(2)
def test_scale_and_far_scores(submission):
    """A scale of 0 or below is used as given; float16 scores far below zero, in a ragged tile, stay finite."""
    with interpreted(submission, trace=False):
        for scale in (0.0, -0.3):
            case = Case(1, 1, 1, 20, 18, 32, causal=scale < 0, scale=scale)
            case.check(case.run(submission, block_m=16, block_n=16))
        far = Case(1, 2, 1, 20, 18, 32, dtype=torch.float16, far=True)
        far.check(far.run(submission, block_m=16, block_n=32))


@points(2)
def test_group_sums(submission):
    """Three query heads on one KV head: its dk and dv are the sums of those that each head alone would give."""
    case = Case(1, 3, 1, 20, 30, 32, causal=True)
    with interpreted(submission, trace=False):
        together = case.run(submission, block_m=32, block_n=32)
        alone = []
        for head in range(3):
            part = [x[:, head : head + 1].contiguous() for x in (case.q, case.o, case.lse, case.do)]
            alone.append(
                submission.flash_attention_backward(
                    part[0], case.k, case.v, *part[1:], causal=True, block_m=32, block_n=32
                )
            )
    case.check(together)
    for index, name in [(1, "dk"), (2, "dv")]:
        total = sum(gradients[index].double() for gradients in alone)
        close(together[index], total, rtol=1e-5, atol=1e-5 * float(total.pow(2).mean().sqrt()), what=name)


@points(2)
def test_deterministic(submission):
    """Bit for bit the same result whatever the order of the programs, and no atomics."""
    case = Case(1, 2, 1, 33, 20, 32, causal=True)
    results = []
    for hostile in (False, True, "random"):
        with interpreted(submission, hostile=hostile, trace=False) as run:
            results.append(case.run(submission, block_m=16, block_n=16))
        run.cost("atomics").exactly(0, "nothing is added by several programs")
    for result in results[1:]:
        for name, first, again in zip(("dq", "dk", "dv"), results[0], result, strict=True):
            equal(again, first, what=f"{name} in another order")


@points(2)
def test_hostile_interpreter(submission):
    """NaN in masked lanes without `other` and in fresh outputs, other orders of the programs: same results."""
    for hostile, shape, causal in [(True, (2, 2, 1, 40, 25, 32), True), ("random", (2, 1, 1, 35, 40, 32), False)]:
        case = Case(*shape, causal)
        with interpreted(submission, hostile=hostile, trace=False):
            case.check(case.run(submission, block_m=32, block_n=16))


@points(2)
def test_blocks_are_irrelevant(submission):
    """Blocks from (16, 16) to (64, 16) give the same gradients, also where one key begins a tile (M = N + 1)."""
    for causal, lengths, blocks in [
        (False, (40, 30), [(16, 32), (64, 16)]),
        (True, (48, 49), [(16, 32), (32, 32)]),
        (True, (33, 18), [(16, 16)]),
    ]:
        case = Case(1, 1, 1, *lengths, 32, causal)
        with interpreted(submission, trace=False):
            for block_m, block_n in blocks:
                case.check(case.run(submission, block_m=block_m, block_n=block_n))


@points(2)
def test_delta_is_wide(submission):
    """float16: dP - delta cancels where all values are nearly alike, so delta needs float32."""
    case = Case(1, 1, 1, 64, 64, 32, dtype=torch.float16)
    base = torch.randn(1, 1, 1, 32).half() * 4
    case.v = base + torch.randn(1, 1, 64, 32).half() / 16
    wide = [x.double().requires_grad_() for x in (case.q, case.k, case.v)]
    o, lse, case.weights = dense(*wide, False, None)
    case.o, case.lse = o.detach().half(), lse.detach().float()
    # The gradients for the o that is given, rounded as it is.
    p = torch.exp(case.q.double() @ case.k.double().transpose(-1, -2) * 32**-0.5 - case.lse.double()[..., None])
    delta = (case.o.double() * case.do.double()).sum(-1, keepdim=True)
    ds = p * (case.do.double() @ case.v.double().transpose(-1, -2) - delta)
    case.gradients = (
        ds @ case.k.double() * 32**-0.5,
        ds.transpose(-1, -2) @ case.q.double() * 32**-0.5,
        p.transpose(-1, -2) @ case.do.double(),
    )
    with interpreted(submission, trace=False):
        case.check(case.run(submission))


def test_only_the_kernels_compute(submission):
    """The wrapper allocates, takes views and launches; do is read where it lies."""
    case = Case(1, 2, 1, 40, 50, 32, causal=True)
    with interpreted(submission, trace=False) as run:
        case.run(submission)
    launches_only(run, "q", "k", "v", "o", "lse", "do")


@points(2)
def test_compiles_for_sm_90(submission):
    """float16, D 64 in blocks of (64, 64), compiles for an H100 without spills; with D 128 shared memory fits."""
    for D, causal, blocks in [(64, True, {"block_m": 64, "block_n": 64}), (128, False, {})]:
        q, k = torch.zeros(1, 4, 128, D, dtype=torch.float16), torch.zeros(1, 2, 128, D, dtype=torch.float16)
        arguments = (q, k, k.clone(), q.clone(), torch.zeros(1, 4, 128), q.clone())
        compiled = compiled_for_sm_90(submission, "flash_attention_backward", *arguments, causal=causal, **blocks)
        for launch in compiled:
            require(
                D == 128 or launch.spills <= SPILLS,
                f"{launch.kernel}: registers spill",
                got=launch.spills,
                expected=SPILLS,
            )
            require(launch.shared <= 232448, f"{launch.kernel}: shared memory fits", got=launch.shared, expected=232448)


def test_full_precision(submission):
    """float32 operands are not rounded to TF32: the compiled kernels hold no such instruction."""
    q = torch.zeros(1, 1, 64, 32)
    arguments = (q, q.clone(), q.clone(), q.clone(), torch.zeros(1, 1, 64), q.clone())
    for launch in compiled_for_sm_90(submission, "flash_attention_backward", *arguments, block_m=16, block_n=16):
        require(not launch.ptx_has("tf32"), f"{launch.kernel} multiplies float32 in full precision, not in TF32")


@points(2)
def test_cost_bytes(submission):
    """Only visited pairs are loaded; the gradients are stored once, and besides them one float32 per query row."""
    for (H, HK, N, M, D), blocks in [((2, 1, 40, 70, 64), (16, 32)), ((1, 1, 70, 40, 64), (32, 16))]:
        for causal in (True, False) if H == 1 else (True,):
            case = Case(1, H, HK, N, M, D, causal)
            with interpreted(submission, trace=False) as run:
                case.run(submission, block_m=blocks[0], block_n=blocks[1])
            pairs = visited_pairs(N, M, *blocks, causal) * H
            inputs = sum(x.numel() * 4 for x in (case.q, case.k, case.v, case.o, case.do))
            limit = int(1.15 * (pairs * 2 * sum(blocks) * D * 4 + 2 * inputs))
            run.cost("loaded").at_most(limit, f"{pairs} visited pairs, and the inputs twice")
            for index, x in enumerate((case.q, case.k, case.v)):
                run.cost("stored", f"result[{index}]").exactly(4 * x.numel(), "every gradient once")
            run.cost("stored", "temporary").at_most(4 * H * N, "one float32 per query row")


@points(2)
def test_cost_dots(submission):
    """At most seven tl.dot per visited pair: pairs that causality hides are not computed."""
    for (H, HK, N, M), (block_m, block_n) in [((2, 1, 48, 48), (16, 16)), ((1, 1, 40, 70), (16, 32))]:
        for causal in (True, False) if H == 1 else (True,):
            case = Case(1, H, HK, N, M, 32, causal)
            with interpreted(submission, trace=False) as run:
                case.run(submission, block_m=block_m, block_n=block_n)
            pairs = visited_pairs(N, M, block_m, block_n, causal) * H
            run.cost("dots").at_most(7 * pairs, f"seven for each of {pairs} visited pairs")
            run.cost("dot_flops").at_most(14 * pairs * block_m * block_n * 32, "blocks as given")
