"""Wrong programs, as edits of the solution."""

from grader.testing import edit

pads_with_zero = edit(
    'x = tl.load(x_ptr + row * stride_xr + col, mask=col_ok, other=float("-inf"))',
    "x = tl.load(x_ptr + row * stride_xr + col, mask=col_ok, other=0.0)",
).then(
    """        x = tl.load(x_ptr + col, mask=col < n, other=float("-inf")).to(tl.float32)
        new_m""",
    """        x = tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        new_m""",
)

no_max = (
    edit("    m = tl.max(x, 0)\n", "    m = 0.0\n")
    .then('    m = tl.where(m == float("-inf"), 0.0, m)  #', "    #")
    .then("        new_m = tl.maximum(m, x)\n", "        new_m = tl.zeros((BLOCK,), tl.float32)\n")
)

three_passes = edit(
    """        new_m = tl.maximum(m, x)
        safe = tl.where(new_m == float("-inf"), 0.0, new_m)
        l = l * tl.exp(m - safe) + tl.exp(x - safe)
        m = new_m
    row_m = tl.max(m, 0)
    row_m = tl.where(row_m == float("-inf"), 0.0, row_m)
    row_l = tl.sum(l * tl.exp(m - row_m), 0)
""",
    """        m = tl.maximum(m, x)
    row_m = tl.max(m, 0)
    row_m = tl.where(row_m == float("-inf"), 0.0, row_m)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + col, mask=col < n, other=float("-inf")).to(tl.float32)
        l += tl.exp(x - row_m)
    row_l = tl.sum(l, 0)
""",
)

huge_block = edit("NARROW = 8192", "NARROW = 1 << 30")

lane_max_nan = edit(
    """        safe = tl.where(new_m == float("-inf"), 0.0, new_m)
        l = l * tl.exp(m - safe) + tl.exp(x - safe)
""",
    "        l = l * tl.exp(m - new_m) + tl.exp(x - new_m)\n",
)

half_sum = edit("    l = tl.sum(e, 0)\n", "    l = tl.sum(e.to(x_ptr.dtype.element_ty), 0).to(tl.float32)\n").then(
    "row_l = tl.sum(l * tl.exp(m - row_m), 0)",
    "row_l = tl.sum((l * tl.exp(m - row_m)).to(x_ptr.dtype.element_ty), 0).to(tl.float32)",
)

backward_without_sum = edit("y * (dy - tl.sum(y * dy, 0))", "y * dy").then("y * (dy - dot)", "y * dy")
