"""Hidden tests: a tiled transpose and a device-wide prefix sum, as Triton kernels."""

import torch

from grader.testing import (
    booleans,
    close,
    compiled_for_sm_90,
    equal,
    fresh,
    given,
    integers,
    interpreted,
    launches_only,
    points,
    require,
    sampled_from,
)

SPILLS = 128  # bytes per thread
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool]


def laid_out(m, n, dtype, layout):
    """A matrix of m x n random bits (no NaN) in this layout."""
    big = torch.randint(-100, 100, (2 * m + 1, 3 * n + 2)).to(dtype)
    if layout == "transposed":
        return torch.randint(-100, 100, (n, m)).to(dtype).T
    if layout == "columns":
        return big[:m, 1 : n + 1]
    if layout == "steps":
        return big[1 : 2 * m + 1 : 2, 2 : 3 * n + 2 : 3]
    return big[:m, :n].clone()


def check_transpose(submission, x):
    y = submission.transpose(x)
    equal(y, x.T.contiguous())
    require(y.is_contiguous(), "the result is contiguous", got=y.stride())
    fresh(y)


def running_sums(x, exclusive=False):
    """Prefix sums in float64, or in whole numbers."""
    wide = x.long() if x.dtype == torch.int32 else x.double()
    sums = wide.cumsum(0)
    return sums - wide if exclusive else sums


def check_cumsum(submission, x, **options):
    y, expected = submission.cumsum(x, **options), running_sums(x, options.get("exclusive", False))
    if x.dtype == torch.int32:
        equal(y, expected.int())
        return
    # Relative to the running sum where x is positive, to the sum of all |x| where terms cancel.
    size = x.double().abs()
    atol = 5e-6 * float(size.max() if (x >= 0).all() else size.sum())
    close(y, expected, rtol=5e-6, atol=atol, by="element", dtype=torch.float32)
    if options.get("exclusive"):
        equal(float(y[0]), 0.0, what="the sum of nothing")


@points(2)
@given(
    m=integers(1, 130),
    n=integers(1, 130),
    dtype=sampled_from(DTYPES),
    layout=sampled_from(["plain", "transposed", "columns", "steps"]),
    examples=20,
)
def test_transpose_exact(submission, m, n, dtype, layout):
    """Bit for bit the transpose, for any size, dtype and strides."""
    with interpreted(submission, trace=False):
        check_transpose(submission, laid_out(m, n, dtype, layout))


def test_transpose_ragged_shapes(submission):
    """1 x 1, 1 x 70, 65 x 3 and 100 x 230, plain and turned."""
    with interpreted(submission, trace=False):
        for m, n in [(1, 1), (1, 70), (65, 3), (100, 230)]:
            for dtype, layout in [(torch.float32, "plain"), (torch.int8, "transposed"), (torch.float16, "steps")]:
                check_transpose(submission, laid_out(m, n, dtype, layout))


@points(2)
def test_scan_matches_float64(submission):
    """1 to 70001 elements: within 5e-6 of the running sum of |x| in float32, exact for int32."""
    with interpreted(submission, trace=False):
        for n in (1, 2, 1023, 1024, 1025, 5000, 70001):
            check_cumsum(submission, torch.randn(n).abs())
            check_cumsum(submission, torch.randint(-20000, 20000, (n,), dtype=torch.int32))
        check_cumsum(submission, torch.randn(5000))
        check_cumsum(submission, torch.randn(3000).half())


def test_empty_scan(submission):
    """n = 0 gives an empty tensor of the right dtype."""
    for dtype, result in [(torch.float32, torch.float32), (torch.float16, torch.float32), (torch.int32, torch.int32)]:
        with interpreted(submission, trace=False):
            equal(submission.cumsum(torch.empty(0, dtype=dtype)), torch.empty(0, dtype=result))


@points(2)
@given(
    n=integers(1, 700),
    block=sampled_from([64, 128, 256]),
    dtype=sampled_from([torch.float32, torch.float16, torch.int32]),
    exclusive=booleans(),
    examples=20,
)
def test_exclusive_shifts(submission, n, block, dtype, exclusive):
    """Exclusive sums start with exactly 0 and are one place behind the inclusive ones, for any block."""
    x = torch.randint(-20000, 20000, (n,), dtype=dtype) if dtype == torch.int32 else torch.rand(n).to(dtype)
    with interpreted(submission, trace=False):
        check_cumsum(submission, x, exclusive=exclusive, block=block)


@points(2)
def test_deep_recursion(submission):
    """20000 ones in blocks of 64 (313 block sums, then 5, then 1) count to 20000; a larger block agrees."""
    expected = torch.arange(1, 20001)
    with interpreted(submission, trace=False):
        ones = torch.ones(4200, dtype=torch.int32)
        equal(submission.cumsum(ones, exclusive=True, block=64), expected[:4200].int() - 1, what="exclusive, block 64")
        for block in (1024, 64):
            equal(submission.cumsum(torch.ones(20000), block=block), expected.float(), what=f"block {block}")


def test_wide_sums(submission):
    """4000 ones in float16 count to 4000: sums are kept in float32."""
    with interpreted(submission, trace=False):
        equal(submission.cumsum(torch.ones(4000, dtype=torch.float16)), torch.arange(1, 4001).float())
        equal(submission.cumsum(torch.ones(4000, dtype=torch.float16), block=4096), torch.arange(1, 4001).float())


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    for hostile in (True, "random"):
        with interpreted(submission, hostile=hostile, trace=False):
            check_transpose(submission, laid_out(100, 230, torch.float32, "plain"))
            check_cumsum(submission, torch.rand(5000), block=256)
            check_cumsum(submission, torch.rand(1500), block=64, exclusive=True)


def test_only_the_kernel_computes(submission):
    """The wrappers allocate, take views and launch: no torch arithmetic, no copy of an input."""
    with interpreted(submission, trace=False) as run:
        submission.transpose(torch.randn(70, 40))
    launches_only(run, "x")
    for exclusive in (False, True):
        with interpreted(submission, trace=False) as run:
            submission.cumsum(torch.rand(300), block=64, exclusive=exclusive)
        launches_only(run, "x")


def test_compiles_for_sm_90(submission):
    """Every launch compiles for an H100 without spilling registers."""
    for name, x in [
        ("transpose", torch.zeros(512, 1024, dtype=torch.bfloat16)),
        ("transpose", torch.zeros(100, 230, dtype=torch.int8)),
        ("cumsum", torch.zeros(5000, dtype=torch.float16)),
    ]:
        compiled = compiled_for_sm_90(submission, name, x)
        for launch in compiled:
            require(launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS)
            require(launch.shared <= 232448, f"{launch.kernel}: shared memory fits", got=launch.shared, expected=232448)


@points(2)
def test_cost_transpose_bytes_and_runs(submission):
    """One launch; every byte once; loads and stores in runs of 32 neighbours or more; no block above 16384."""
    for x in (torch.randn(256, 128), torch.randn(128, 256).T, torch.randn(128, 384)[:, 128:]):
        with interpreted(submission) as run:
            submission.transpose(x)
        run.cost("launches").exactly(1, "one pass")
        run.cost("loaded", "x").exactly(4 * x.numel(), "every element once")
        run.cost("stored", "result").exactly(4 * x.numel(), "every element once")
        run.cost("stored").exactly(4 * x.numel(), "nothing but the result")
        run.cost("largest_block").at_most(16384, "blocks stay on chip")
        for access in run.accesses:
            sort = f"{access.kind} of {access.name}"
            require(access.longest_run >= 32, f"each {sort} has runs of 32 neighbours", got=access.longest_run)


@points(2)
def test_cost_scan_moves(submission):
    """About three moves per element: at most 2.1 times the input loaded and 1.05 times the output stored."""
    for n in (5000, 70001):
        with interpreted(submission, trace=False) as run:
            submission.cumsum(torch.rand(n))
        run.cost("loaded").at_most(int(2.1 * 4 * n), "x twice, and a little for the block sums")
        run.cost("stored").at_most(int(1.05 * 4 * n), "the result once, and a little for the block sums")


def test_cost_scan_launches(submission):
    """Two launches of ceil(n / block) programs per level, one for the last."""
    for n, block in [(50, 64), (5000, 1024), (4500, 64)]:
        with interpreted(submission, trace=False) as run:
            submission.cumsum(torch.rand(n), block=block)
        levels = [-(-n // block)]
        while levels[-1] > 1:
            levels.append(-(-levels[-1] // block))
        run.cost("launches").at_most(2 * len(levels) - 1, f"levels of {levels} programs")
        for launch in run.launches:
            require(launch.programs in levels, "a level has one program per block", got=launch.grid, expected=levels)
