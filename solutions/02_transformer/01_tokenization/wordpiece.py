"""WordPiece: greedy longest-match encoding, and training by likelihood instead of frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from fractions import Fraction

### BEGIN SOLUTION
from itertools import pairwise

### END SOLUTION


def wordpiece_encode(
    word: str, vocab: Container[str], unk: str = "[UNK]", max_chars: int = 100, max_piece: int | None = None
) -> list[str]:
    """BERT's encoding of one word (arXiv:1810.04805, section 3), greedy and without a second thought.

    From the current position take the longest piece of the vocabulary that fits, then go on behind it. A piece that
    does not begin the word stands in the vocabulary with "##" in front: "##able" fits inside a word only, "able" at
    its beginning only. If nothing fits at some position the whole word becomes [unk], even if another segmentation
    exists: with {"ab", "a", "##bc"} the word "abc" is [unk], because "ab" is taken first.

    Arguments
        word       without whitespace; "" gives []. It may hold any other character, "#" too.
        vocab      anything that answers `piece in vocab`; more than that is not asked of it
        unk        what stands for a word that cannot be encoded
        max_chars  a word of more characters than this is [unk] at once
        max_piece  no piece of the vocabulary has more characters than this (without ##); None: not known

    Returns the pieces, with ## where they have it.

    Cost: with max_piece = m, a word of n characters asks the vocabulary at most n * m times; without, at most
    n * (n + 1) / 2 times.
    """
    ### BEGIN SOLUTION
    if len(word) > max_chars:
        return [unk]
    pieces = []
    start = 0
    while start < len(word):
        farthest = len(word) if max_piece is None else min(len(word), start + max_piece)
        for end in range(farthest, start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocab:
                pieces.append(piece)
                start = end
                break
        else:
            return [unk]
    return pieces
    ### END SOLUTION


def wordpiece_decode(pieces: list[str]) -> str:
    """The text of some pieces: a ## piece is joined, without its ##, to the one before it, and a space stands before
    any other but the first. A ## piece at the very beginning starts a word, without its ##. [] gives "".

    ["un", "##aff", "##able", "in", "##deed"] gives "unaffable indeed".
    """
    ### BEGIN SOLUTION
    words: list[str] = []
    for piece in pieces:
        if not piece.startswith("##"):
            words.append(piece)
        elif words:
            words[-1] += piece[2:]
        else:
            words.append(piece[2:])
    return " ".join(words)
    ### END SOLUTION


def pair_scores(words: dict[tuple[str, ...], int]) -> dict[tuple[str, str], Fraction]:
    """The score of every adjacent pair of pieces, exactly:

        score(a, b) = count(a b) / (count(a) * count(b))

    `words` says how often each segmented word occurs, as ("t", "##o", "##p"): 6. count(a b) is how often a stands right
    before b in all these words, count(a) how often a occurs in them, each word as often as its count says; overlapping
    positions count, so ("a", "##a", "##a") has the pair ("##a", "##a") once and "##a" twice.

    Why this score: times the number of all pieces, it is how much likelier each occurrence becomes when it is drawn as
    one piece instead of two independent ones. Frequent parts that meet by chance score low, rare parts that always come
    together score high.

    Returns {(a, b): Fraction} for the pairs that occur.
    """
    ### BEGIN SOLUTION
    pieces, pairs = _counts(words)
    return {(a, b): Fraction(count, pieces[a] * pieces[b]) for (a, b), count in pairs.items()}
    ### END SOLUTION


def train_wordpiece(word_counts: dict[str, int], vocab_size: int) -> list[str]:
    """Learn a WordPiece vocabulary from words and how often each occurs.

    Every word starts as its characters: "stop" is s, ##t, ##o, ##p. The vocabulary starts as all pieces that occur,
    sorted as Python sorts strings. Then, until it has vocab_size pieces or no pair is left:

    1. Take the pair with the highest score of `pair_scores`; of equal scores the one with the highest count(a b); of
       those the smallest pair, as Python compares tuples of strings. Scores are compared exactly, not in floating
       point.
    2. Append the new piece: a, followed by b without its ##. In all words replace the pair by it, from left to right
       without overlap.

    If the initial vocabulary already has vocab_size pieces or more, it is returned whole. Words are not empty, hold no
    whitespace and do not begin with "##"; counts are at least 1.
    """
    ### BEGIN SOLUTION
    words = {(word[0], *("##" + char for char in word[1:])): count for word, count in word_counts.items()}
    vocab = sorted({piece for word in words for piece in word})
    while len(vocab) < vocab_size:
        scores, pairs = pair_scores(words), _counts(words)[1]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-scores[pair], -pairs[pair], pair))
        vocab.append(best[0] + best[1][2:])
        words = {_merged(word, best, vocab[-1]): count for word, count in words.items()}
    return vocab
    ### END SOLUTION


### BEGIN SOLUTION
def _counts(words: dict[tuple[str, ...], int]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """How often each piece and each adjacent pair occurs."""
    pieces: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        for piece in word:
            pieces[piece] += count
        for pair in pairwise(word):
            pairs[pair] += count
    return pieces, pairs


def _merged(word: tuple[str, ...], pair: tuple[str, str], new: str) -> tuple[str, ...]:
    """The word with `new` for each occurrence of the pair."""
    result: list[str] = []
    at = 0
    while at < len(word):
        found = word[at : at + 2] == pair
        result.append(new if found else word[at])
        at += 2 if found else 1
    return tuple(result)


### END SOLUTION
