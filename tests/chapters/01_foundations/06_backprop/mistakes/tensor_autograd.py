"""Wrong programs for 1.6/tensor_autograd, as edits of the solution."""

from grader.testing import edit

no_unbroadcast = edit.function(
    "_unbroadcast",
    """
def _unbroadcast(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return grad
""",
)

unbroadcast_leading_only = edit("    return grad.sum(axis=stretched, keepdims=True)\n", "    return grad\n")

matmul_transposes_everything = edit(
    "_unbroadcast(g @ np.swapaxes(b, -1, -2), a.shape)", "_unbroadcast(g @ b.T, a.shape)"
).then("_unbroadcast(np.swapaxes(a, -1, -2) @ g, b.shape)", "_unbroadcast(a.T @ g, b.shape)")

gather_assigns = edit("np.add.at(scattered, index, g)", "scattered[index] += g")

reduction_without_expand = edit("return g if keepdims else np.expand_dims(g, axes)", "return g")

max_to_every_tie = edit("share = is_top / is_top.sum(axis=axes, keepdims=True)", "share = is_top")

numpy_hijacks_reflected = edit("    __array_ufunc__ = None\n", "")
