"""Wrong programs, as edits of the solution."""

from grader.testing import edit

atomics_for_dq = (
    edit("delta_ptr, dk_ptr, dv_ptr, N, M,", "delta_ptr, dk_ptr, dv_ptr, dq_ptr, N, M,")
    .then(
        "            dk = tl.dot(ds.to(q.dtype), q, dk,",
        """            dq = tl.dot(tl.trans(ds).to(k.dtype), k, input_precision="ieee") * scale
            tl.atomic_add(dq_ptr + at[:, None] * D + d[None, :], dq, mask=row_ok[:, None])
            dk = tl.dot(ds.to(q.dtype), q, dk,""",
    )
    .then("dq, dk, dv = torch.empty_like(q),", "dq, dk, dv = torch.zeros_like(q, dtype=torch.float32),")
    .then("lse, delta, dk, dv, N,", "lse, delta, dk, dv, dq, N,")
    .then(
        """    query_gradients_kernel[(triton.cdiv(N, block_m), B * H)](
        q, k, v, do, lse, delta, dq, N, M, scale, H, H // HK, *do.stride()[:3], **common, **tuning
    )
    return dq, dk, dv""",
        "    return dq.to(q.dtype), dk, dv",
    )
)

group_heads_overwrite = edit(
    "        head = kv_head * group + member",
    "        dk, dv = tl.zeros((BLOCK_N, D), tl.float32), tl.zeros((BLOCK_N, D), tl.float32)\n"
    "        head = kv_head * group + member",
)

starts_at_first_tile = edit("first = tl.maximum(0, tile * BLOCK_N - offset) // BLOCK_M * BLOCK_M", "first = 0")

start_not_rounded = edit("tile * BLOCK_N - offset) // BLOCK_M * BLOCK_M", "tile * BLOCK_N - offset)").then(
    "p = tl.where(key[:, None] <= row[None, :] + offset, p, 0.0)",
    "p = tl.where(key[:, None] <= (start // BLOCK_M * BLOCK_M + tl.arange(0, BLOCK_M))[None, :] + offset, p, 0.0)",
)

delta_in_half = edit(
    "delta = torch.empty((B, H, N), dtype=torch.float32,", "delta = torch.empty((B, H, N), dtype=q.dtype,"
)

scale_missing_on_dk = edit("dk * scale, mask", "dk, mask")

padded_queries_count = edit(
    "            row_ok = row < N\n            at = head", "            row_ok = row >= 0\n            at = head"
)

base_mix = edit('float("inf"), lse) * 1.4426950408889634', 'float("inf"), lse)')

padded_keys_count = edit("visible = key_ok[None, :]", "visible = (key >= 0)[None, :]")

scale_or_default = edit("scale = D**-0.5 if scale is None else scale", "scale = scale or D**-0.5")

starts_one_row_late = edit(
    "first = tl.maximum(0, tile * BLOCK_N - offset)", "first = tl.maximum(0, tile * BLOCK_N - offset + 1)"
)
