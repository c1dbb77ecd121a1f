"""Wrong programs, as edits of the solution."""

from grader.testing import edit

no_rescale = edit("acc * factor[:, None]", "acc")

exp2_without_log2e = edit("scale_log2 = scale * 1.4426950408889634", "scale_log2 = scale").then(
    "(m + tl.log2(l)) * 0.6931471805599453", "m + tl.log2(l) * 0.6931471805599453"
)

lse_in_base_2 = edit("(m + tl.log2(l)) * 0.6931471805599453", "m + tl.log2(l)")

visits_all_tiles = edit("end = tl.maximum(0, tl.minimum(M, (tile + 1) * BLOCK_M + offset))", "end = M")

top_left_mask = edit("offset = M - N", "offset = 0")

ragged_keys_join = edit("visible = key_ok[None, :]", "visible = (key >= 0)[None, :]")

nan_in_first_tile = edit('safe = tl.where(new_m == float("-inf"), 0.0, new_m)', "safe = new_m")

head_modulo = edit("kv_head = q_head // group", "kv_head = q_head % (H // group)")

half_state = (
    edit("l = tl.zeros((BLOCK_M,), tl.float32)", "l = tl.zeros((BLOCK_M,), q.dtype)")
    .then("acc = tl.zeros((BLOCK_M, D), tl.float32)", "acc = tl.zeros((BLOCK_M, D), q.dtype)")
    .then("l = l * factor + tl.sum(p, 1)", "l = (l * factor + tl.sum(p, 1)).to(q.dtype)")
    .then(
        'acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None], input_precision="ieee")',
        'acc = (acc * factor[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")).to(q.dtype)',
    )
    .then("    seen = l > 0\n", "    l, acc = l.to(tl.float32), acc.to(tl.float32)\n    seen = l > 0\n")
)

copies_inputs = edit(
    "    o = torch.empty(", "    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()\n    o = torch.empty("
)

scale_or_default = edit("D**-0.5 if scale is None else scale", "scale or D**-0.5")

v_by_ks_strides = edit(
    "v_ptr += batch * stride_vb + kv_head * stride_vh", "v_ptr += batch * stride_kb + kv_head * stride_kh"
)

one_key_short = edit("tl.minimum(M, (tile + 1) * BLOCK_M + offset)", "tl.minimum(M, (tile + 1) * BLOCK_M + offset - 1)")
