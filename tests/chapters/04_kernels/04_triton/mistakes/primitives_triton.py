"""Wrong programs, as edits of the solution."""

from grader.testing import edit

row_program = (
    edit(
        """    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    col = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = (row < m)[:, None] & (col < n)[None, :]
    tile = tl.load(x_ptr + row[:, None] * stride_xm + col[None, :] * stride_xn, mask=ok)
    tl.store(y_ptr + col[:, None] * m + row[None, :], tl.trans(tile), mask=tl.trans(ok))
""",
        """    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_xm + col * stride_xn, mask=col < n)
    tl.store(y_ptr + col * m + row, x, mask=col < n)
""",
    )
    .then("block = 64\n", "block = 1024\n")
    .then("(triton.cdiv(m, block), triton.cdiv(n, block))", "(m, triton.cdiv(n, block))")
)

swapped_mask = edit("mask=tl.trans(ok)", "mask=ok")

ignores_strides = edit("m, n, x.stride(0), x.stride(1), BLOCK=block", "m, n, n, 1, BLOCK=block")

neighbour_chain = (
    edit("before_ptr + pid - 1, mask=pid > 0", "y_ptr + pid * BLOCK - 1, mask=pid > 0")
    .then("    block_sums_kernel[(programs,)](x, sums, n, SHIFT=shift, BLOCK=block)\n", "")
    .then("(x, cumsum(sums, block=block), y, n,", "(x, sums, y, n,")
)

one_level = edit(
    "    scan_kernel[(programs,)](x, cumsum(sums, block=block), y,",
    """    before = torch.zeros_like(sums)
    scan_kernel[(1,)](sums, None, before, programs, HAS_BEFORE=False, SHIFT=0, BLOCK=block)
    scan_kernel[(programs,)](x, before, y,""",
)

scan_then_fix = edit.function(
    "cumsum",
    """
@triton.jit
def fix_kernel(y_ptr, sums_ptr, before_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n, other=0)
    y += tl.load(before_ptr + pid - 1, mask=pid > 0, other=0)
    tl.store(y_ptr + i, y, mask=i < n)


@triton.jit
def scan_and_sum_kernel(x_ptr, sums_ptr, y_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i - SHIFT, mask=(i >= SHIFT) & (i < n), other=0).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + i, tl.cumsum(x, 0), mask=i < n)
    tl.store(sums_ptr + pid, tl.sum(x, 0))


def cumsum(x: Tensor, *, exclusive: bool = False, block: int = 1024) -> Tensor:
    n = x.numel()
    y = torch.empty(n, dtype=torch.int32 if x.dtype == torch.int32 else torch.float32, device=x.device)
    if n == 0:
        return y
    programs = triton.cdiv(n, block)
    sums = torch.empty(programs, dtype=y.dtype, device=x.device)
    scan_and_sum_kernel[(programs,)](x, sums, y, n, SHIFT=int(exclusive), BLOCK=block)
    if programs > 1:
        fix_kernel[(programs,)](y, sums, cumsum(sums, block=block), n, BLOCK=block)
    return y
""",
)

sums_inclusive = edit("before_ptr + pid - 1, mask=pid > 0, other=0", "before_ptr + pid")

half_sums = edit(
    "other=0).to(sums_ptr.dtype.element_ty)\n    tl.store(sums_ptr + pid, tl.sum(x, 0))",
    "other=0)\n    tl.store(sums_ptr + pid, tl.sum(x, 0))",
).then(
    "other=0).to(y_ptr.dtype.element_ty)\n    y = tl.cumsum(x, 0)",
    "other=0)\n    y = tl.cumsum(x, 0).to(y_ptr.dtype.element_ty)",
)
