"""Hidden tests: row softmax and its backward, narrow and wide, as Triton kernels."""

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
    tensors,
)

INF = float("inf")
SPILLS = 128  # bytes per thread
SHAPES = [(64, 200), (3, 1), (5, 4096), (16, 8192), (2, 8193), (2, 70001)]


def softmax(x):
    """Float64 softmax; rows of nothing but -inf give zeros."""
    return x.double().softmax(-1).nan_to_num(nan=0.0)


def check_softmax(submission, x):
    """In float16 the smallest weights lie between two subnormal numbers: 3e-8 is half of their distance."""
    rtol, atol = (3e-6, 0.0) if x.dtype == torch.float32 else (2e-3, 3e-8)
    y = submission.softmax(x)
    close(y, softmax(x), rtol=rtol, atol=atol, dtype=x.dtype)
    return y


def check_backward(submission, logits, dy):
    """y comes rounded to its dtype, as in training. dy - sum(y * dy) may cancel: some absolute error is allowed."""
    y = softmax(logits).to(dy.dtype)
    dot = (y.double() * dy.double()).sum(-1, keepdim=True)
    rtol = 1e-5 if dy.dtype == torch.float32 else 2e-3
    atol = 1e-6 * float((y.double() * dy.double()).abs().max()) + (0.0 if dy.dtype == torch.float32 else 3e-8)
    close(submission.softmax_backward(y, dy), y.double() * (dy.double() - dot), rtol=rtol, atol=atol, dtype=dy.dtype)


@points(3)
def test_matches_float64_oracle(submission):
    """Narrow and wide rows, float32 and float16, agree with float64 softmax; rows sum to 1."""
    with interpreted(submission, trace=False):
        for rows, n in SHAPES:
            x = 3 * torch.randn(rows, n)
            y = check_softmax(submission, x)
            close(y.double().sum(-1), torch.ones(rows, dtype=torch.float64), rtol=1e-5, what="row sums")
            check_softmax(submission, x.half())


@points(2)
@given(x=tensors(rows=(1, 4), n=(1, 300), values="logits"), half=booleans(), examples=20)
def test_any_logits(submission, x, half):
    """Shifted, scaled, peaked and equal rows, +-1e4, single -inf entries and rows of nothing else."""
    with interpreted(submission, trace=False):
        check_softmax(submission, x.half() if half else x)


@points(2)
def test_extreme_logits(submission):
    """Wide and narrow rows around 1e4 and -1e4, with -inf in single entries, in whole blocks and throughout."""
    for n in (700, 8192, 20000):
        x = torch.randn(5, n)
        x[0] += 1e4
        x[1] -= 1e4
        x[2, torch.rand(n) < 0.3] = -INF
        x[3, : n - 5] = -INF
        x[4] = -INF
        with interpreted(submission, trace=False):
            check_softmax(submission, x)
    x = torch.randn(2, 30000)
    x[0, :16384] = -INF
    x[1, 8192:] = -INF
    with interpreted(submission, trace=False):
        check_softmax(submission, x)


def test_wide_sums(submission):
    """262144 equal logits in float16 have a sum that float16 cannot hold: every weight is 2 ** -18."""
    with interpreted(submission, trace=False):
        equal(
            submission.softmax(torch.full((1, 262144), 2.0, dtype=torch.float16)),
            torch.full((1, 262144), 2.0**-18, dtype=torch.float16),
        )


@points(3)
def test_backward_matches(submission):
    """Narrow and wide rows, float32 and float16, agree with the float64 gradient."""
    with interpreted(submission, trace=False):
        for rows, n in SHAPES:
            logits = 2 * torch.randn(rows, n)
            check_backward(submission, logits, torch.randn(rows, n))
            check_backward(submission, logits, (torch.randn(rows, n) + 3).half())


@given(rows=integers(1, 4), n=integers(1, 300), shift=integers(-5, 5), half=booleans(), examples=15)
def test_backward_any_width(submission, rows, n, shift, half):
    """Any number of rows and columns; a constant added to dy changes nothing."""
    dy = torch.randn(rows, n) + shift
    with interpreted(submission, trace=False):
        check_backward(submission, 2 * torch.randn(rows, n), dy.half() if half else dy)


def test_row_stride(submission):
    """A slice of columns is read where it lies."""
    for x in (torch.randn(6, 300)[:, 5:205], torch.randn(2, 9500)[:, 100:9300], torch.randn(9, 130)[1::3]):
        with interpreted(submission, trace=False) as run:
            y = check_softmax(submission, x)
        require(y.is_contiguous(), "the result is contiguous", got=y.stride())
        launches_only(run, "x")


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    for hostile in (True, "random"):
        with interpreted(submission, hostile=hostile, trace=False):
            for rows, n in [(7, 200), (2, 8300)]:
                x = torch.randn(rows, n) - 50
                check_softmax(submission, x)
                check_backward(submission, x, torch.randn(rows, n))


def test_only_the_kernel_computes(submission):
    """The wrappers allocate, take views and launch: no torch arithmetic, no copy of an input."""
    for rows, n in [(3, 70), (2, 9000)]:
        y = softmax(torch.randn(rows, n)).float()
        with interpreted(submission, trace=False) as run:
            fresh(submission.softmax(torch.randn(rows, n)))
        launches_only(run, "x")
        with interpreted(submission, trace=False) as run:
            fresh(submission.softmax_backward(y, torch.randn(rows, n)))
        launches_only(run, "y", "dy")


def test_compiles_for_sm_90(submission):
    """Narrow and wide, forward and backward, compile for an H100 without spilling registers."""
    for dtype, n in [(torch.bfloat16, 8192), (torch.float16, 16400)]:
        x = torch.zeros(4, n, dtype=dtype)
        for name, *arguments in [("softmax", x), ("softmax_backward", x, x.clone())]:
            compiled = compiled_for_sm_90(submission, name, *arguments)
            for launch in compiled:
                require(
                    launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS
                )
                require(launch.shared <= 232448, f"{launch.kernel}: shared memory", got=launch.shared, expected=232448)


@points(2)
def test_cost_narrow_rows(submission):
    """Rows of up to 8192 elements: one launch, read once, written once."""
    for rows, n, dtype in [(9, 200, torch.float32), (3, 8192, torch.float16)]:
        x = torch.randn(rows, n).to(dtype)
        size = x.numel() * x.element_size()
        with interpreted(submission, trace=False) as run:
            submission.softmax(x)
        run.cost("launches").exactly(1, "one pass")
        run.cost("loaded", "x").exactly(size, "every element once")
        run.cost("stored").exactly(size, "every element of the result once")
        with interpreted(submission, trace=False) as run:
            submission.softmax_backward(softmax(x).to(dtype), x)
        run.cost("launches").exactly(1, "one pass")
        run.cost("loaded", "y").exactly(size, "every element once")
        run.cost("loaded", "dy").exactly(size, "every element once")
        run.cost("stored").exactly(size, "every element of the result once")


@points(2)
def test_cost_wide_rows(submission):
    """Wider rows: one launch, read twice at most, written once; no block above 32768 elements."""
    for rows, n in [(2, 8193), (1, 140000)]:
        x = torch.randn(rows, n)
        with interpreted(submission, trace=False) as run:
            submission.softmax(x)
        run.cost("launches").exactly(1, "one launch")
        run.cost("loaded", "x").at_most(2 * 4 * rows * n, "one pass finds maximum and sum, one writes")
        run.cost("stored").exactly(4 * rows * n, "every element of the result once")
        run.cost("largest_block").at_most(32768, "blocks stay on chip")
        with interpreted(submission, trace=False) as run:
            submission.softmax_backward(softmax(x).float(), x)
        run.cost("launches").exactly(1, "one launch")
        run.cost("loaded", "y").at_most(2 * 4 * rows * n, "one pass finds the sum, one writes")
        run.cost("loaded", "dy").at_most(2 * 4 * rows * n, "one pass finds the sum, one writes")
        run.cost("stored").exactly(4 * rows * n, "every element of the result once")
        run.cost("largest_block").at_most(32768, "blocks stay on chip")
