"""Wrong programs, as edits of the solution."""

from grader.testing import edit

k_not_masked = edit("mask=row_ok[:, None] & step_ok[None, :]", "mask=row_ok[:, None]").then(
    "mask=step_ok[:, None] & col_ok[None, :]", "mask=col_ok[None, :]"
)

store_unmasked = edit(", acc, mask=row_ok[:, None] & col_ok[None, :])", ", acc)")

half_accumulator = (
    edit("acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)", "acc = tl.zeros((BLOCK_M, BLOCK_N), c_ptr.dtype.element_ty)")
    .then(
        'acc = tl.dot(a, b, acc, input_precision="ieee")',
        'acc += tl.dot(a, b, input_precision="ieee").to(c_ptr.dtype.element_ty)',
    )
    .then("    # Bias and activation see", "    acc = acc.to(tl.float32)\n    # Bias and activation see")
)

assumes_row_major = edit("*a.stride(), *b.stride(),", "K, 1, N, 1,")

group_too_tall = edit("height = tl.minimum(tl.cdiv(M, BLOCK_M) - first_row, GROUP)", "height = GROUP").then(
    "height = min(tiles_m - first_row, group)", "height = group"
)

plain_order = (
    edit("tile_row = first_row + pid % per_group % height", "tile_row = pid // tl.cdiv(N, BLOCK_N)")
    .then("tile_col = pid % per_group // height", "tile_col = pid % tl.cdiv(N, BLOCK_N)")
    .then("return first_row + pid % per_group % height, pid % per_group // height", "return divmod(pid, tiles_n)")
)

epilogue_after_cast = edit(
    "    if HAS_BIAS:\n", "    acc = acc.to(c_ptr.dtype.element_ty).to(tl.float32)\n    if HAS_BIAS:\n"
)

infeasible_configs = (
    edit("num_stages = min(4, smem // stage_bytes)", "num_stages = 4")
    .then(
        "num_warps = 8 if block_m * block_n >= 128 * 128 else 4\n        stage_bytes",
        "num_warps = 4\n        stage_bytes",
    )
    .then("if num_stages >= 2 and block_m * block_n <= 128 * 32 * num_warps:", "if num_stages:")
)

tf32_inputs = edit('acc = tl.dot(a, b, acc, input_precision="ieee")', "acc = tl.dot(a, b, acc)")
