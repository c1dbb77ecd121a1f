"""Wrong programs, as edits of the solution."""

from grader.testing import edit

one_program_per_query_head = (
    edit("kv_head = tl.program_id(1)", "kv_head = tl.program_id(1) // G")
    .then("row_ok = row < G", "row_ok = row < 1")
    .then("head = kv_head * G + row", "head = tl.program_id(1) + row")
    .then("(B, HK, splits)](", "(B, H, splits)](")
)

padding_as_address = (
    edit("position // BLOCK_SIZE, mask=position_ok, other=0)", "position // BLOCK_SIZE)")
    .then("d[:, None], mask=position_ok[None, :], other=0.0)", "d[:, None])")
    .then("d[None, :], mask=position_ok[:, None], other=0.0)", "d[None, :])")
)

masked_v_is_nan = (
    edit(
        "position_ok = position < end\n",
        "position_ok = position < end\n"
        "        stored = position < tl.minimum(first + share, tl.cdiv(context, BLOCK_SIZE) * BLOCK_SIZE)\n",
    )
    .then("position // BLOCK_SIZE, mask=position_ok, other=0)", "position // BLOCK_SIZE, mask=stored, other=0)")
    .then("d[:, None], mask=position_ok[None, :]", "d[:, None], mask=stored[None, :]")
    .then("d[None, :], mask=position_ok[:, None]", "d[None, :], mask=stored[:, None]")
)

context_rounded_up = edit(
    "context = tl.load(context_ptr + batch)", "context = tl.cdiv(tl.load(context_ptr + batch), BLOCK_SIZE) * BLOCK_SIZE"
)

combine_plain_mean = edit(
    'weight = tl.exp2(lse - tl.where(top == float("-inf"), 0.0, top))',
    "weight = tl.where(split_ok & (top == top), 1.0, 0.0)",
)

empty_split_nan = edit("total = tl.where(l > 0, l, 1.0)", "total = l")

tiny_dot = edit("BLOCK_N=64 if q.element_size() == 2 else 32", "BLOCK_N=block_size")

remainder_dropped = edit("tl.cdiv(tl.cdiv(context, BLOCK_N), splits)", "(tl.cdiv(context, BLOCK_N) // splits)")

no_rescale = edit("acc * factor[:, None]", "acc")

exp2_without_log2e = edit("scale_log2 = scale * 1.4426950408889634", "scale_log2 = scale")

lse_without_max = edit("m + tl.log2(total)", "tl.log2(total)")

head_modulo = edit("head = kv_head * G + row", "head = kv_head + row * HK")

scale_zero_is_default = edit("D**-0.5 if scale is None else scale", "scale or D**-0.5")

assumes_contiguous_tables = edit("block_tables.stride(0), D=D", "block_tables.shape[1], D=D")

tf32_inputs = edit('tl.dot(q, k, input_precision="ieee")', "tl.dot(q, k)")

copies_inputs = edit("    partial = torch.empty(", "    q = q.contiguous()\n    partial = torch.empty(")
