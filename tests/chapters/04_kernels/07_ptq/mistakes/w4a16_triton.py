"""Wrong programs, as edits of the solution."""

from grader.testing import edit

word_per_row = edit(
    "words = tl.load(qweight_ptr + (k // 8 + word)[:, None] * N + col[None, :], col_ok[None, :], other=0)",
    "words = tl.load(qweight_ptr + ((k + step) // 8)[:, None] * N + col[None, :], col_ok[None, :], other=0)",
).then(
    "code = tl.reshape((words[:, None, :] >> nibble[None, :, None]) & 0xF, (BLOCK_K, BLOCK_N))",
    "code = (words >> (step % 8 * 4)[:, None]) & 0xF",
)

arithmetic_shift = edit(
    "(words[:, None, :] >> nibble[None, :, None]) & 0xF,", "words[:, None, :] >> nibble[None, :, None],"
)

zeros_minus_one = edit("(col % 8 * 4)) & 0xF", "(col % 8 * 4)) & 0xF) + 1").then(
    "zero = (tl.load(qzeros_ptr", "zero = ((tl.load(qzeros_ptr"
)

scale_of_first_group = edit("tl.load(scales_ptr + group * N + col,", "tl.load(scales_ptr + col,")

dequantises_first = edit(
    "    block_m, block_n, block_k = block\n",
    """    shifts = 4 * torch.arange(8, dtype=torch.int32)
    codes = ((qweight[:, None, :] >> shifts[:, None]) & 0xF).reshape(K, N)
    zeros = ((qzeros[:, :, None] >> shifts) & 0xF).reshape(-1, N).repeat_interleave(group, 0)
    return x @ ((codes - zeros) * scales.repeat_interleave(group, 0)).to(x.dtype)
""",
).then(
    """    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    out = y if splits == 1 else torch.empty((splits, M, N), dtype=torch.float32, device=x.device)
    w4a16_kernel[(triton.cdiv(M, block_m), triton.cdiv(N, block_n), splits)](
        x, qweight, scales, qzeros, out, M, N, K // splits, *x.stride(),
        GROUP=group, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=4, num_stages=3,
    )  # fmt: skip
    if splits > 1:
        sum_splits_kernel[(triton.cdiv(M * N, 1024),)](out, y, M * N, SPLITS=splits, BLOCK=1024)
    return y
""",
    "",
)

atomic_split = (
    edit(
        "    tl.store(out_ptr + row[:, None] * N + col[None, :], acc, row_ok[:, None] & col_ok[None, :])\n",
        "    at = out_ptr + row[:, None] * N + col[None, :]\n"
        "    tl.atomic_add(at, acc.to(out_ptr.dtype.element_ty), row_ok[:, None] & col_ok[None, :])\n",
    )
    .then("    out_ptr += split.to(tl.int64) * M * N\n", "")
    .then("y = torch.empty((M, N)", "y = torch.zeros((M, N)")
    .then("    out = y if splits == 1 else torch.empty((splits, M, N), dtype=torch.float32, device=x.device)\n", "")
    .then("x, qweight, scales, qzeros, out, M, N,", "x, qweight, scales, qzeros, y, M, N,")
    .then(
        """    if splits > 1:
        sum_splits_kernel[(triton.cdiv(M * N, 1024),)](out, y, M * N, SPLITS=splits, BLOCK=1024)
""",
        "",
    )
)

group_straddled = edit("64, min(group, 64))", "64, 64)")

nibble_order = edit("words[:, None, :] >> nibble[None, :, None]", "words[:, None, :] >> (28 - nibble)[None, :, None]")
