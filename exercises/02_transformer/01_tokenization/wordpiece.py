"""WordPiece: greedy longest-match encoding, and training by likelihood instead of frequency."""

# Not allowed here, in any form: tokenizers, transformers.

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from fractions import Fraction


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
    raise NotImplementedError("2.1/wordpiece: write wordpiece_encode")


def wordpiece_decode(pieces: list[str]) -> str:
    """The text of some pieces: a ## piece is joined, without its ##, to the one before it, and a space stands before
    any other but the first. A ## piece at the very beginning starts a word, without its ##. [] gives "".

    ["un", "##aff", "##able", "in", "##deed"] gives "unaffable indeed".
    """
    raise NotImplementedError("2.1/wordpiece: write wordpiece_decode")


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
    raise NotImplementedError("2.1/wordpiece: write pair_scores")


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
    raise NotImplementedError("2.1/wordpiece: write train_wordpiece")
