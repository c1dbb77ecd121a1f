"""Wrong programs, as edits of the solution."""

from grader.testing import edit

no_rescale_l = edit("l = state.l * rescale + p.sum(dim=1)", "l = state.l + p.sum(dim=1)")

no_rescale_acc = edit("acc = state.acc * rescale[:, None] + p @ values", "acc = state.acc + p @ values")

starts_at_zero = edit("m=torch.full((rows,), -torch.inf, dtype=dtype)", "m=torch.zeros(rows, dtype=dtype)")

nan_from_masked = edit("return torch.where(m == -torch.inf, 0.0, m)", "return m")

three_reads = edit.function(
    "softmax_blocks",
    """
def softmax_blocks(load: Callable[[int, int], Tensor], n: int, block: int) -> Iterator[tuple[int, Tensor]]:
    columns = [(i, min(i + block, n)) for i in range(0, n, block)]
    if not columns:
        return
    m = _reference(torch.stack([load(i, j).amax(dim=1) for i, j in columns]).amax(dim=0))[:, None]
    l = sum(torch.exp(load(i, j) - m).sum(dim=1) for i, j in columns)
    l = torch.where(l > 0, l, 1.0)[:, None]
    for i, j in columns:
        yield i, torch.exp(load(i, j) - m) / l
""",
)

merge_drops_scale = edit("l = a.l * scale_a + b.l * scale_b", "l = a.l + b.l").then(
    "acc = a.acc * scale_a[:, None] + b.acc * scale_b[:, None]", "acc = a.acc + b.acc"
)

lse_without_max = edit("return out, state.m + torch.log(state.l)", "return out, torch.log(state.l)")

probabilities_from_lse = edit("n)) - m) / l", "n)) - (m + l.log()))")
