"""Hidden tests: WordPiece. Oracles: greedy outputs by hand; a trainer that recounts everything with exact fractions."""

import random
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise

from grader.testing import (
    equal,
    given,
    integers,
    lists,
    needs,
    points,
    sampled_from,
)
from grader.testing.costs import Cost


class Vocabulary:
    """A vocabulary that counts how often it is asked. It lives beside the submission and holds no secret."""

    def __init__(self, pieces):
        self.pieces = frozenset(pieces)
        self.asked = 0

    def __contains__(self, piece):
        self.asked += 1
        return piece in self.pieces


def greedy(word, vocab, unk="[UNK]"):
    pieces, rest = [], word
    while rest:
        prefix = "##" if pieces else ""
        fits = [rest[:end] for end in range(len(rest), 0, -1) if prefix + rest[:end] in vocab]
        if not fits:
            return [unk]
        pieces.append(prefix + fits[0])
        rest = rest[len(fits[0]) :]
    return pieces


def counted(words):
    pieces, pairs = Counter(), Counter()
    for word, count in words.items():
        for piece in word:
            pieces[piece] += count
        for pair in pairwise(word):
            pairs[pair] += count
    return pieces, pairs


def scores_of(words):
    pieces, pairs = counted(words)
    return {(a, b): Fraction(n, pieces[a] * pieces[b]) for (a, b), n in pairs.items()}


def trained(word_counts, vocab_size):
    """The vocabulary, with everything counted anew for each merge."""
    words = {(word[0], *("##" + char for char in word[1:])): count for word, count in word_counts.items()}
    vocab = sorted({piece for word in words for piece in word})
    while len(vocab) < vocab_size:
        scores, (_, pairs) = scores_of(words), counted(words)
        if not scores:
            break
        a, b = sorted(scores, key=lambda pair: (-scores[pair], -pairs[pair], pair))[0]
        vocab.append(a + b[2:])
        rewritten = {}
        for word, count in words.items():
            symbols = []
            for piece in word:
                # An open a waits at the end of the list; what has just been made is no a of this round.
                if symbols and symbols[-1] == (a, True) and piece == b:
                    symbols[-1] = (a + b[2:], False)
                else:
                    symbols.append((piece, True))
            rewritten[tuple(piece for piece, _ in symbols)] = count
        words = rewritten
    return vocab


@points(2)
def test_greedy_dead_end(submission):
    """If nothing fits at some position the whole word is [UNK], even if another segmentation exists."""
    equal(submission.wordpiece_encode("abc", {"ab", "a", "##bc"}), ["[UNK]"])
    equal(submission.wordpiece_encode("abc", {"ab", "a", "##bc"}, unk="<unk>"), ["<unk>"])
    equal(submission.wordpiece_encode("abcd", {"ab", "##c"}, "?"), ["?"])
    equal(submission.wordpiece_encode("xab", {"ab", "##ab"}), ["[UNK]"])
    equal(submission.wordpiece_encode("abc", {"ab", "##bc", "##c", "a"}), ["ab", "##c"])


@points(2)
def test_greedy_longest(submission):
    """From each position the longest piece that fits."""
    vocab = {"un", "##aff", "##able", "aff", "##a", "##ffa", "##ble", "unaff"}
    equal(submission.wordpiece_encode("unaffable", vocab), ["unaff", "##able"])
    equal(submission.wordpiece_encode("unaffa", vocab), ["unaff", "##a"])
    equal(submission.wordpiece_encode("unaffaffble", vocab), ["unaff", "##aff", "##ble"])
    # A gap in the lengths: abcd fits although abc does not.
    equal(submission.wordpiece_encode("abcde", {"a", "ab", "abcd", "##e", "##cde"}), ["abcd", "##e"])


@points(2)
def test_continuation_prefix(submission):
    """A piece without ## begins a word, one with ## does not; a # in the word is a character like any other."""
    equal(submission.wordpiece_encode("abab", {"ab"}), ["[UNK]"])
    equal(submission.wordpiece_encode("abab", {"##ab"}), ["[UNK]"])
    equal(submission.wordpiece_encode("abab", {"ab", "##ab"}), ["ab", "##ab"])
    equal(submission.wordpiece_encode("c#", {"c#", "c", "###"}), ["c#"])
    equal(submission.wordpiece_encode("c#", {"c", "###"}), ["c", "###"])
    equal(submission.wordpiece_encode("#c#", {"#", "##c", "##c#"}), ["#", "##c#"])


@points(1)
def test_limits(submission):
    """Beyond max_chars characters [UNK]; an empty word is []; a whole word is one piece; max_piece is a bound."""
    vocab = {"a", "##a", "hello", "日本語", "##日"}
    equal(submission.wordpiece_encode("a" * 100, vocab), ["a"] + ["##a"] * 99)
    equal(submission.wordpiece_encode("a" * 101, vocab), ["[UNK]"])
    equal(submission.wordpiece_encode("aaa", vocab, max_chars=3), ["a", "##a", "##a"])
    equal(submission.wordpiece_encode("aaaa", vocab, max_chars=3), ["[UNK]"])
    equal(submission.wordpiece_encode("a" * 130, vocab, max_chars=200, max_piece=5), ["a"] + ["##a"] * 129)
    equal(submission.wordpiece_encode("", vocab), [])
    equal(submission.wordpiece_encode("hello", vocab), ["hello"])
    equal(submission.wordpiece_encode("hello", vocab, max_piece=5), ["hello"])
    equal(submission.wordpiece_encode("日本語日", vocab, "[UNK]", 4, 3), ["日本語", "##日"])


@points(3)
@given(
    pieces=lists(lists(sampled_from(list("ab#é")), n=(1, 4)).map("".join), n=(0, 14)),
    begins=integers(0, 2**14 - 1),
    word=lists(sampled_from(list("abé#")), n=(0, 12)).map("".join),
    known=sampled_from([False, True]),
    examples=80,
)
def test_random_vocabularies(submission, pieces, begins, word, known):
    """Random pieces over a small alphabet, with and without max_piece: longest first, or [UNK]."""
    # A word that begins with "##" itself could be read in two ways.
    word = re.sub("^##+", "#", word)
    vocab = {("" if begins >> i & 1 else "##") + piece for i, piece in enumerate(pieces)}
    longest = max(map(len, pieces), default=1) if known else None
    equal(submission.wordpiece_encode(word, vocab, max_piece=longest), greedy(word, vocab))


@points(1)
def test_decode(submission):
    """## pieces join the piece before them, others stand after a space; a leading ## piece starts a word."""
    for pieces, expected in (
        (["un", "##aff", "##able", "in", "##deed"], "unaffable indeed"),
        (["a"], "a"),
        ([], ""),
        (["##able", "un", "##do"], "able undo"),
        (["c", "###", "#", "##x"], "c# #x"),
        (["[UNK]", "日", "##本"], "[UNK] 日本"),
    ):
        equal(submission.wordpiece_decode(pieces), expected)


@points(2)
def test_scores_by_hand(submission):
    """(##p, ##s) = 1/8, (s, ##t) = 1/9, (t, ##o) = 1/15 although it is the most frequent; all exact."""
    words = {
        ("t", "##o", "##p"): 6,
        ("t", "##o", "##t"): 3,
        ("p", "##o", "##t"): 4,
        ("s", "##t", "##o", "##p", "##s"): 2,
    }
    expected = {
        ("##p", "##s"): Fraction(1, 8),
        ("s", "##t"): Fraction(1, 9),
        ("t", "##o"): Fraction(1, 15),
        ("##o", "##p"): Fraction(1, 15),
        ("p", "##o"): Fraction(1, 15),
        ("##o", "##t"): Fraction(7, 135),
        ("##t", "##o"): Fraction(2, 135),
    }
    equal(submission.pair_scores(words), expected)
    equal(
        submission.pair_scores({("a", "##a", "##a", "##a"): 2, ("a",): 5}),
        scores_of({("a", "##a", "##a", "##a"): 2, ("a",): 5}),
    )
    equal(submission.pair_scores({("a",): 3}), {})
    equal(submission.pair_scores({}), {})
    vocab = ["##o", "##p", "##s", "##t", "p", "s", "t", "##ps", "st", "to"]
    equal(submission.train_wordpiece({"top": 6, "tot": 3, "pot": 4, "stops": 2}, 10), vocab)


def corpus():
    alphabet = random.choice(["ab", "abc", "abcdef", "abé", "a#"])
    words = {"".join(random.choices(alphabet, k=random.randint(1, 7))) for _ in range(random.randint(1, 12))}
    return {word: random.choice([1, 1, 2, 3, 5, 7, 40]) for word in words if not word.startswith("##")}


@points(3)
def test_training_matches_recount(submission):
    """60 random corpora: the vocabulary, in order, that a recount with exact fractions gives."""
    cases = [(corpus(), random.choice([5, 15, 30, 200])) for _ in range(60)]
    results = submission.many("train_wordpiece", [(case, {}) for case in cases])
    wrong = [case for case, vocab in zip(cases, results, strict=True) if vocab != trained(*case)]
    for words, size in sorted(wrong, key=lambda case: sum(map(len, case[0])))[:1]:
        equal(submission.train_wordpiece(words, size), trained(words, size))


EQUAL_BUT_NOT_IN_FLOATS = (({"eeacfed": 1, "adba": 5}, 30), ({"bca": 2, "aac": 2, "acccca": 40}, 30))
"""Corpora in which two scores are equal fractions, but differ in their last bit when they are divided in two steps."""


@points(2)
def test_training_details(submission):
    """Equal scores, limits of the size, words of one letter, overlaps, a # in a word."""
    for words, size in (
        ({"ab": 1, "cd": 1}, 6),
        ({"ab": 2, "cd": 1}, 6),
        ({"ba": 1, "ab": 1, "cab": 1}, 9),
        ({"top": 6, "stops": 2}, 3),
        ({"top": 6, "stops": 2}, 7),
        ({"a": 5, "b": 1}, 10),
        ({"aaaa": 2, "aaaaa": 1}, 10),
        ({"c#": 3, "c##": 2, "#c": 1, "a##b": 4}, 30),
        ({"日本": 3, "日本語": 2, "本": 1}, 30),
        ({}, 5),
        *EQUAL_BUT_NOT_IN_FLOATS,
    ):
        equal(submission.train_wordpiece(words, size), trained(words, size))


@needs("greedy_longest")
@points(2)
def test_cost_look_ups(submission):
    """An n-character word asks the vocabulary at most n * m times with max_piece = m, n (n + 1) / 2 times without."""
    for word, pieces in (
        ("a" * 60, ["a", "##a"]),
        ("ab" * 40, ["abababab", "##abab", "##ab", "##abababab"]),
        ("a" * 50 + "x", ["a", "##a"]),
    ):
        n, m = len(word), max(len(piece.removeprefix("##")) for piece in pieces)
        for bound, limit in ((m, n * m), (None, n * (n + 1) // 2)):
            vocab = submission.prop(Vocabulary, pieces)
            equal(submission.wordpiece_encode(word, vocab, max_piece=bound), greedy(word, set(pieces)))
            Cost("look-ups in the vocabulary", vocab.asked).at_most(limit, f"{n} characters, max_piece {bound}")
