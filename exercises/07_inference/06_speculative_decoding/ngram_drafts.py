"""Drafts without a draft model: prompt lookup (what followed last time?) and lookahead (guess a window, mend it)."""

# Not allowed here, in any form: numpy, re.

from __future__ import annotations

from collections.abc import Callable, Sequence


def prompt_lookup(tokens: Sequence[int], max_ngram: int, min_ngram: int, k: int) -> list[int]:
    """Proposes what followed the longest end of the text when it occurred before.

    Among the suffix n-grams tokens[-n:] with min_ngram <= n <= max_ngram, take the longest that also occurs earlier,
    that is, starting before the suffix itself (the two may overlap). Of its occurrences take the earliest, and return
    the up to k tokens that follow it in `tokens` (they may run into the suffix). [] if no such n-gram occurs earlier.
    ValueError unless 1 <= min_ngram <= max_ngram and k >= 0.

    Cost: at most 4 * len(tokens) comparisons (==, !=) of two tokens, however repetitive the text, and work that grows
    linearly (up to logarithms): 100,000 tokens with max_ngram 20,000 take well under a second, not minutes.
    """
    raise NotImplementedError("7.6/ngram_drafts: write prompt_lookup")


class NgramPool:
    """N-grams seen so far, by their first token: for each token the most recent distinct continuations."""

    def __init__(self, n: int, per_key: int) -> None:
        """n >= 2: length of the n-grams. per_key >= 1: how many continuations (n - 1 tokens) a token keeps."""
        raise NotImplementedError("7.6/ngram_drafts: write NgramPool.__init__")

    def add(self, tokens: Sequence[int]) -> None:
        """Records every n-gram of the sequence from left to right. One that is known already becomes the most recent;
        the oldest continuation of a token is forgotten where there would be more than per_key."""
        raise NotImplementedError("7.6/ngram_drafts: write NgramPool.add")

    def propose(self, token: int) -> list[list[int]]:
        """The kept continuations of a token, n - 1 tokens each, the most recent first; [] if there are none."""
        raise NotImplementedError("7.6/ngram_drafts: write NgramPool.propose")


def lookahead_decode(
    model: Callable[[list[int], list[list[int]]], list[list[int]]],
    prompt: Sequence[int],
    n_new: int,
    window: int,
    pool: NgramPool | None = None,
    pad: int = 0,
) -> tuple[list[int], int]:
    """Greedy decoding in fewer calls: (the n_new greedy tokens, number of calls). prompt non-empty; n_new, window >= 0.

    model(context, branches) answers every branch g with a list y of len(g) + 1 tokens, y[i] being the greedy token
    after context + g[:i]. So y[0] is right whatever was guessed, y[1] if g[0] == y[0], and so on. One call per round:

    1. branches = [the window's guess] and, with a pool, pool.propose(context[-1]) behind it. The first guess is `pad`,
       `window` times.
    2. For each branch let a be the largest number with g[:a] == y[:a]. The branch with the largest a wins, the first on
       ties; its y[:a + 1] are true tokens and are appended to the context.
    3. With the winner's a, the next guess is y[a + 1:] of branch 0 (already corrected once: a Jacobi iteration), filled
       up with `pad` on the right to `window` tokens.
    4. The pool learns: at the start pool.add(prompt), then after each call the context's last n - 1 tokens from before
       this call together with the new ones, so that each n-gram is recorded once. (What it learns from surplus tokens
       of the last call, or if n_new = 0, is up to you.)

    Stop as soon as n_new tokens are there and drop what is too much; n_new = 0 makes no call. `pool` is an NgramPool of
    yours. A simplified form of arXiv:2402.02057, which collects n-grams from the Jacobi trajectories as well.
    """
    raise NotImplementedError("7.6/ngram_drafts: write lookahead_decode")
