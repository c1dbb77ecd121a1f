"""Wrong programs for 2.1/unigram_lm, as edits of the solution."""

from grader.testing import edit

greedy_segmentation = edit.function(
    "viterbi",
    """
def viterbi(text, logp, unk_logp=None):
    pieces, total, start = [], 0.0, 0
    while start < len(text):
        for end in range(min(len(text), start + _longest(logp)), start, -1):
            piece = text[start:end]
            score = logp.get(piece, unk_logp if len(piece) == 1 else None)
            if score is not None:
                break
        else:
            raise ValueError(f"{text!r} has no segmentation")
        pieces.append(piece)
        total += score
        start = end
    return pieces, total
""",
)

probabilities_not_logs = edit(
    "    forward = [0.0] + [-math.inf] * len(text)  # of all ways to segment text[:i]\n",
    """    forward = [1.0] + [0.0] * len(text)
    for start, end, _, score in edges:
        forward[end] += forward[start] * math.exp(score)
    if forward[-1] == 0.0:
        raise ValueError(f"{text!r} has no segmentation")
    backward = [0.0] * len(text) + [1.0]
    for start, end, _, score in reversed(edges):
        backward[start] += math.exp(score) * backward[end]
    counts = {}
    for start, end, piece, score in edges:
        counts[piece] = counts.get(piece, 0.0) + forward[start] * math.exp(score) * backward[end] / forward[-1]
    return counts, math.log(forward[-1])
""",
)

max_instead_of_sum = edit.function(
    "_expected_counts",
    """
def _expected_counts(text, logp, longest):
    pieces, score = _best_path(text, _edges(text, logp, longest))
    return {piece: float(uses) for piece, uses in Counter(pieces).items()}, score
""",
)

divides_by_wrong_total = edit(
    "math.exp(forward[start] + score + backward[end] - total)", "math.exp(forward[start] + score - forward[end])"
)

all_substrings = edit("for start in range(max(0, end - longest), end):", "for start in range(end):").then(
    "            if score is not None:\n", "            if score is not None and len(piece) <= longest:\n"
)

prunes_by_probability = edit("return uses[piece] * (logp[piece] - alternative)", "return math.exp(logp[piece])")

unweighted_words = edit("expected[piece] += count * uses", "expected[piece] += uses")

unused_without_alternative = edit(
    "            return math.inf\n        return uses", "            alternative = -math.inf\n        return uses"
)

likelihood_after_the_step = edit(
    "    return {piece: math.log(uses) - log_sum for piece, uses in kept.items()}, log_likelihood\n",
    """    new = {piece: math.log(uses) - log_sum for piece, uses in kept.items()}
    return new, sum(count * _expected_counts(word, new, longest)[1] for word, count in words.items())
""",
)

unknown_for_known = edit("if score is None and len(piece) == 1:", "if unk_logp is not None and len(piece) == 1:")
