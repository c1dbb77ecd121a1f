"""Hidden tests: byte-level BPE training. Oracle: a trainer that recounts every pair for every merge."""

import random
import re
from collections import Counter
from itertools import pairwise

from grader.testing import (
    counting,
    equal,
    executed_lines,
    given,
    growth,
    integers,
    lists,
    needs,
    points,
    raises,
    require,
    sampled_from,
    text,
)

BYTES = {byte: bytes([byte]) for byte in range(256)}


def words_of(string):
    """A simple split: a word with the space before it, or the space alone."""
    return re.findall(r" ?\S+|\s", string)


def words_alone(string):
    """Words and the white space between them, apart."""
    return re.findall(r"\S+|\s+", string)


def letters(string):
    """No two characters in one piece."""
    return list(string)


def threes(string):
    return [string[i : i + 3] for i in range(0, len(string), 3)]


def whole(string):
    return [string]


SPLITS = (whole, words_of, threes)


def merged(word, pair):
    result, at = [], 0
    while at < len(word):
        if word[at : at + 2] == pair:
            result.append(pair[0] + pair[1])
            at += 2
        else:
            result.append(word[at])
            at += 1
    return tuple(result)


def recount(pieces, merges):
    """The merges, counting all pairs again for each."""
    words = Counter(tuple(BYTES[byte] for byte in piece.encode()) for piece in pieces)
    found = []
    while len(found) < merges:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        found.append(best)
        words = {merged(word, best) if best[0] in word else word: count for word, count in words.items()}
    return found


def vocabulary(merges, special_tokens=()):
    """What train_bpe must return beside these merges."""
    tokens = [*BYTES.values(), *(left + right for left, right in merges), *(s.encode() for s in special_tokens)]
    return dict(enumerate(tokens))


def trains(submission, string, merges, special_tokens=(), split=words_of, pieces=None):
    """Requires the merges of a recount and the vocabulary that belongs to them."""
    special_tokens = list(special_tokens)
    expected = recount(split(string) if pieces is None else pieces, merges)
    vocab, found = submission.train_bpe(string, 256 + merges + len(special_tokens), special_tokens, split)
    equal(found, expected, what="merges")
    equal(vocab, vocabulary(expected, special_tokens), what="vocab")


@points(2)
def test_worked_example(submission):
    """Six merges of a tongue twister, with a special token, by hand."""
    string = "she sells sea shells<|endoftext|>sea shells she sells"
    vocab, merges = submission.train_bpe(string, 263, ["<|endoftext|>"], words_of)
    expected = [(b" ", b"s"), (b"l", b"s"), (b"l", b"ls"), (b"h", b"e"), (b" s", b"he"), (b" s", b"e")]
    equal(merges, expected, what="merges")
    equal(vocab, vocabulary(expected, ["<|endoftext|>"]), what="vocab")


@points(1)
def test_ties_go_to_the_greatest_pair(submission):
    """Of equal counts the greatest pair of byte strings wins: a prefix is smaller, the left one decides first."""
    for string, expected in (
        ("ab cd", [(b"c", b"d"), (b"a", b"b")]),
        ("ba ac", [(b"b", b"a"), (b"a", b"c")]),
        ("\u00e9 zz", [(b"\xc3", b"\xa9"), (b"z", b"z")]),
        # (ab, c) and (a, bd): a is a prefix of ab.
        ("ab ab ab bd bd bd abc abd", [(b"a", b"b"), (b"b", b"d"), (b"ab", b"d"), (b"ab", b"c")]),
    ):
        _, merges = submission.train_bpe(string, 256 + len(expected), [], words_alone)
        equal(merges, expected, what="merges")


@points(1)
def test_overlapping_occurrences(submission):
    """A pair counts at every adjacent position, and is merged from left to right without overlap."""
    _, merges = submission.train_bpe("aaaaa", 300, [], whole)
    equal(merges, [(b"a", b"a"), (b"aa", b"aa"), (b"aaaa", b"a")], what="merges of 'aaaaa'")
    # aaa holds (a, a) twice: 4 in all, against 3 of (x, y).
    _, merges = submission.train_bpe("aaa aaa xy xy xy", 257, [], words_alone)
    equal(merges, [(b"a", b"a")], what="merges of 'aaa aaa xy xy xy'")
    for string in ("aaa", "aaaa aaa", "abababa", "ababab bab", "aabaabaab"):
        trains(submission, string, 12, split=words_alone)


@points(2)
@given(
    string=sampled_from(["ab", "a", "abc", "ab ", "aé"]).flatmap(
        lambda alphabet: lists(sampled_from(list(alphabet)), n=(0, 40)).map("".join)
    ),
    merges=integers(0, 40),
    split=sampled_from([0, 1, 2]),
    examples=60,
)
def test_small_alphabets(submission, string, merges, split):
    """Texts over one to three letters, where everything overlaps: the merges of a plain recount."""
    trains(submission, string, merges, split=SPLITS[split])


@points(3)
def test_equals_naive_recount(submission):
    """400 random texts over two or three letters and a text of 3,000 words: the merges of a plain recount."""
    cases = []
    for _ in range(400):
        alphabet = random.choice(["ab", "abc", "ab ", "a b"])
        string = "".join(random.choices(alphabet, k=random.randrange(1, 60)))
        cases.append((string, 256 + random.randrange(1, 30), [], random.choice(SPLITS)))
    results = submission.many("train_bpe", [(case, {}) for case in cases])
    wrong = [
        case
        for case, (_, merges) in zip(cases, results, strict=True)
        if merges != recount(case[3](case[0]), case[1] - 256)
    ]
    for string, size, _, split in sorted(wrong, key=lambda case: len(case[0]))[:1]:
        trains(submission, string, size - 256, split=split)
    trains(submission, prose(3000, 700), 80)


def prose(length, distinct):
    """A text of `length` words, of which about `distinct` differ: many of few words, few of many."""
    consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
    words = [
        "".join(random.choice(consonants) + random.choice(vowels) for _ in range(random.randint(1, 4)))
        for _ in range(distinct)
    ]
    weights = [1 / (rank + 3) for rank in range(distinct)]
    return " ".join(random.choices(words, weights, k=length))


@points(3)
def test_special_tokens(submission):
    """Never merged across, never counted, the longest first, literal whatever characters they hold."""
    # Without the cut, (b, x) or (>, b) would win.
    for special in ("<|x|>", ".*", "a+b", "[^a]", "(", "|", "\\d", "^$", " "):
        string = special.join(["ab", "xb", "ab", "xb", "", "ab", special, "b"])
        trains(submission, string, 4, [special], split=whole, pieces=string.split(special))
    # One contains the other; given in either order.
    string = "p<|a|><|a|>q<|a|>p<|a|><|a|>q<|a|>|>|>|>"
    pieces = ["p", "q", "p", "q", "|>|>|>"]
    for special_tokens in (["<|a|>", "<|a|><|a|>"], ["<|a|><|a|>", "<|a|>"]):
        trains(submission, string, 6, special_tokens, split=whole, pieces=pieces)
    string = "xyz" + "abab" * 3 + "abcdabcd"
    for special_tokens in (["ab", "abcd"], ["abcd", "ab"]):
        trains(submission, string, 6, special_tokens, split=whole, pieces=["xyz"])
    # split sees the text between special tokens, and no more.
    split = counting(words_of)
    trains(
        submission,
        "go <eos>on<eos><eos> and on",
        5,
        ["<eos>"],
        split=split,
        pieces=words_of("go ") + words_of("on and on"),
    )
    seen = [args[0] for args, _ in split.arguments]
    equal([chunk for chunk in seen if chunk], ["go ", "on", " and on"], what="the texts given to split")


@points(2)
def test_merges_stay_inside_pieces(submission):
    """No pair is formed over the border of two pieces."""
    trains(submission, "abababab", 5, split=letters)
    trains(submission, "abcabcabcabc", 9, split=threes)
    trains(submission, "the cat, the hat, the mat", 20)


@points(1)
def test_counts_are_weighted(submission):
    """A word that occurs 1,000 times outweighs 999 distinct words."""
    string = "xy " * 1000 + " ".join(f"cd{number:03d}" for number in range(999))
    _, merges = submission.train_bpe(string, 258, [], words_alone)
    equal(merges, [(b"x", b"y"), (b"c", b"d")], what="merges")


@points(2)
def test_early_stop_and_unicode(submission):
    """Training ends when no pair is left; the special tokens follow at once; characters are learnt from bytes."""
    trains(submission, "ab ab", 100, ["<s>", "</s>"])
    trains(submission, "", 100, ["<pad>", "<s>"])
    trains(submission, "abc", 0, ["<s>"])
    trains(submission, "x", 3)
    string = "日本語 日本 日 naïve café 👩🏽\u200d💻 👩🏽 😀😀😀 שלום"
    trains(submission, string, 60)
    pieces = [piece for chunk in string.split("日本") for piece in words_of(chunk)]
    trains(submission, string, 60, ["日本"], pieces=pieces)
    trains(submission, "é" * 9 + "è" * 8 + "\u0000\u007f", 12, split=whole)


@points(1)
@given(
    string=text(n=(0, 60)),
    special_tokens=sampled_from([[], ["<s>"], ["ab", "a"], ["é", "b c"]]),
    merges=integers(0, 50),
)
def test_vocabulary_is_consistent(submission, string, special_tokens, merges):
    """Any text: ids without a gap, each merge's id is its pair joined, and both parts exist before they are used."""
    vocab, found = submission.train_bpe(string, 256 + merges + len(special_tokens), special_tokens, words_of)
    require(len(found) <= merges, "more merges than the vocabulary has room for", got=len(found), expected=merges)
    equal(vocab, vocabulary(found, special_tokens), what="vocab")
    known = set(BYTES.values())
    for left, right in found:
        require({left, right} <= known, "a merge uses a token that is not made before", got=(left, right))
        known.add(left + right)


@points(1)
def test_refuses_bad_arguments(submission):
    """ValueError for a vocabulary that is too small, an empty special token, or one given twice."""
    for size, special_tokens in ((255, []), (257, ["a", "b"]), (300, [""]), (300, ["<s>", "b", "<s>"])):
        with raises(ValueError):
            submission.train_bpe("abab", size, special_tokens, words_of)
    equal(submission.train_bpe("abab", 258, ["a", "c"], words_of), (vocabulary([], ["a", "c"]), []))


# ---- cost


def random_words(count, alphabet, length):
    words = set()
    while len(words) < count:
        words.add("".join(random.choices(alphabet, k=length)))
    return sorted(words)


def lines_of(submission, string, merges):
    """(executed lines, the merges found)"""
    with executed_lines(submission) as cost:
        _, found = submission.train_bpe(string, 256 + merges, [], words_alone)
    return cost, found


@needs("worked_example")
@points(3)
def test_cost_only_what_a_merge_changes(submission):
    """Words that no merge touches add at most 40 executed lines for each byte of theirs, for 150 merges."""
    busy = random_words(40, "abcdefghijklmnopqrstuvwxyz", 8) * 20
    idle = [chr(code) for code in random.sample(range(0x4E00, 0x9FA0), 300)]
    alone, expected = lines_of(submission, " ".join(busy), 150)
    equal(expected, recount(busy, 150), what="merges")
    both, found = lines_of(submission, " ".join(busy + idle), 150)
    equal(found, expected, what="merges with 300 rare words more")
    both.at_most(alone.value + 40 * 3 * len(idle), f"{alone.value:,} without the 300 words, 40 more a byte of theirs")


@needs("worked_example")
@points(2)
def test_cost_words_are_counted_not_repeated(submission):
    """The same 400 words written twice: less than 1.3 times the executed lines, for 300 merges."""
    string = " ".join(random_words(400, "abcdefghijklmnop", 6)) + " "
    growth(lambda times: lines_of(submission, string * times, 300)[0], 1, 2).at_most(1.3, "each distinct word once")


@needs("worked_example")
@points(2)
def test_cost_large_corpus(submission):
    """10,000 distinct words and 2,000 merges are done within the time limit."""
    words = random_words(10_000, "abcdefghijklmnopqrstuvwxyzäöüéàèßçñабвгдежз", 5)
    string = " ".join(words)
    vocab, merges = submission.train_bpe(string, 2256, [], words_alone)
    equal(len(merges), 2000, what="number of merges")
    equal(vocab, vocabulary(merges), what="vocab")
    equal(merges[:3], recount(words, 3), what="the first merges")
