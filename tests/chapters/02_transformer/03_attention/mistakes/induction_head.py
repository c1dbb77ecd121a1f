"""Wrong programs for 2.3/induction_head, as edits of the solution."""

from grader.testing import edit

attends_to_same_token = edit("w_k[previous, :vocab] = np.eye(vocab)", "w_k[token, :vocab] = np.eye(vocab)")

off_by_one_shift = edit("np.eye(max_len, k=-1)", "np.eye(max_len)")

position_zero_ghost = edit("    w_k[place.start, vocab] = -2.0\n", "")

soft_attention = edit("margin = 20.0", "margin = 1.0")

slices_overlap = edit("w_o[:, previous] = np.eye(vocab)", "w_o[:, token] = np.eye(vocab)").then(
    "w_k[previous, :vocab] = np.eye(vocab)", "w_k[token, :vocab] = np.eye(vocab)"
)

scale_ignored = edit("return margin * np.ceil(np.sqrt(dh))", "return margin")
