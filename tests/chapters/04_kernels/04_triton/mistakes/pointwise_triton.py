"""Wrong programs, as edits of the solution."""

from grader.testing import edit

no_mask = edit("ok = (row < rows)[:, None] & col_ok[None, :]", "ok = (row >= 0)[:, None] & (col >= 0)[None, :]")

tanh_gelu = edit(
    "0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))",
    "v * tl.sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))",
)

half_arithmetic = edit(
    "v = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32) + bias[None, :]",
    "x = tl.load(x_ptr + at, mask=ok, other=0.0)\n    v = (x + bias[None, :].to(x.dtype)).to(tl.float32)",
)

interleaved_pairs = edit("head[:, None] * D + pair[None, :]", "head[:, None] * D + 2 * pair[None, :]").then(
    "second = first + D // 2", "second = first + 1"
)

reads_after_store = edit(
    "    tl.store(second, b * cos[None, :] + a * sin[None, :], mask=ok)",
    "    a = tl.load(first, mask=ok, other=0.0).to(tl.float32)\n"
    "    tl.store(second, b * cos[None, :] + a * sin[None, :], mask=ok)",
)

one_sign_forgotten = (
    edit("def rotate_heads(x_ptr, cos, sin,", "def rotate_heads(x_ptr, cos, sin, other_sin,")
    .then("b * cos[None, :] + a * sin[None, :]", "b * cos[None, :] + a * other_sin[None, :]")
    .then("    if INVERSE:\n", "    other_sin = sin\n    if INVERSE:\n")
    .then("stride_qt, cos, sin, q_heads", "stride_qt, cos, sin, other_sin, q_heads")
    .then("stride_kt, cos, sin, k_heads", "stride_kt, cos, sin, other_sin, k_heads")
)

assumes_contiguous_tokens = edit("q.stride(0),", "q_heads * head_dim,").then("k.stride(0),", "k_heads * head_dim,")

copies_first = edit(
    "    k_heads = k.shape[1]\n", "    k_heads = k.shape[1]\n    q, k = q.contiguous(), k.contiguous()\n"
)
