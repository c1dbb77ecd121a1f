"""Wrong programs for 7.6/ngram_drafts, as edits of the solution."""

from grader.testing import edit

NGRAM_SEARCH = """def prompt_lookup(tokens, max_ngram, min_ngram, k):
    if not 1 <= min_ngram <= max_ngram or k < 0:
        raise ValueError("1 <= min_ngram <= max_ngram and k >= 0 are needed")
    tokens = list(tokens)
    end = len(tokens)
    for n in {sizes}:
        for start in range({starts}):
            if all(tokens[start + j] == tokens[end - n + j] for j in range(n)):
                return tokens[start + n : start + n + k]
    return []
"""
LONGEST_FIRST = "range(min(max_ngram, end - 1), min_ngram - 1, -1)"

matches_the_suffix_itself = edit.function(
    "prompt_lookup",
    NGRAM_SEARCH.format(sizes=LONGEST_FIRST, starts="end - n, -1, -1"),
)

shortest_first = edit.function(
    "prompt_lookup",
    NGRAM_SEARCH.format(sizes="range(min_ngram, min(max_ngram, end - 1) + 1)", starts="end - n"),
)

quadratic_scan = edit.function("prompt_lookup", NGRAM_SEARCH.format(sizes=LONGEST_FIRST, starts="end - n"))

continues_past_mismatch = edit(
    "        if token != answer[i]:\n            return i\n    return len(guess)\n",
    "        pass\n    return sum(token == right for token, right in zip(guess, answer))\n",
)

verifies_against_itself = edit("if token != answer[i]:", "if token != answer[i + 1]:")

window_not_shifted = edit("ahead = answers[0][a + 1 :]", "ahead = answers[0][a:][:window]")

at_least_one_lost = edit("new = answers[agreed.index(a)][: a + 1]", "new = answers[agreed.index(a)][: max(a, 1)]")
