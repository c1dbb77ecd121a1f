"""Hidden tests: a byte-level BPE at work. Oracles: plain repeated merging; ids frozen from tiktoken."""

import random
import re
from itertools import pairwise

from grader.testing import (
    binary,
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

TRAINED = """
Ġ t, e n, ð Ł, o k, ok en, e r, e s, Ġt oken, Ñ Ĥ, x t, e xt, ã Ĥ, Ð µ, Ð °, t s, i n, d e, Ġt h, Ġt ext, Ġ m, ã ģ,
Ðµ Ð, Ð ¾, s p, sp l, spl i, Ġm o, Ġ ðŁ, Ġ in, Ġ f, Ġ a, ðŁ Ĵ, ðŁĴ », ðŁ ı, ðŁı ½, ðŁı½ â, ðŁı½â Ģ, ðŁı½âĢ į,
ðŁı½âĢį ðŁĴ», è ª, èª ŀ, æ ľ, æľ ¬, æ Ĺ, æĹ ¥, æĹ¥ æľ¬, ãģ ®, ã ĥ, ã Ģ, ãĢ Ĥ, ÑĤ Ð¾, Ñ Ģ, ÐµÐ ½, Ð º, Ðº ÐµÐ½, Ð ¸,
Ð¸ Ð, Ã ¼, Ã ©, Ã ¨, © ðŁı½âĢįðŁĴ», ĺ Ģ, ĳ ©ðŁı½âĢįðŁĴ», z er, spli t, s e, r Ã©, l es, i zer, h e, c h, a u
"""
"""72 merges trained on a few lines in five scripts, code and emoji, in the characters of GPT-2's vocabulary files."""

FROZEN = (
    ("the tokens of the text", [116, 325, 263, 115, 32, 111, 102, 273, 101, 274]),
    ("Übersetzt für Wörter", [195, 156, 98, 261, 321, 116, 122, 116, 285, 313, 114, 32, 87, 195, 182, 114, 116, 261]),
    ("текст токенов", [264, 277, 186, 209, 129, 264, 32, 306, 310, 278, 208, 178]),
    ("日本語の日本", [301, 296, 302, 301]),
    (
        "def decode(tokens): return 😀",
        [272, 102, 32, 272, 99, 111, 272, 40, 116, 260, 115, 41, 58, 32, 114, 101, 116, 117, 114, 110, 283, 317],
    ),
    ("👩🏽\u200d💻😀👩🏽", [258, 318, 258, 317, 258, 145, 169, 290]),
    ("tttthhheeeetokentokentoken", [116, 116, 116, 116, 104, 104, 325, 101, 101, 101, 116, 260, 116, 260, 116, 260]),
    ("  the\t\n then  ", [32, 273, 101, 9, 10, 273, 257, 32, 32]),
    ("modèles fréquents \x00�", [109, 111, 100, 315, 323, 285, 322, 113, 117, 257, 270, 32, 0, 239, 191, 189]),
)
"""Texts, each as one piece, and tiktoken's ids for the ranks above."""


def from_gpt2(characters):
    """The bytes that GPT-2's printable characters stand for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    return bytes(table[char] for char in characters)


MERGES = [tuple(map(from_gpt2, pair.split(" "))) for pair in " ".join(TRAINED.split()).split(", ")]


def vocabulary(merges):
    return BYTES | {256 + rank: left + right for rank, (left, right) in enumerate(merges)}


VOCAB = vocabulary(MERGES)


def naive(data, merges):
    """The tokens of one piece: merge the leftmost pair of lowest rank, look again, until there is none."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    symbols = [BYTES[byte] for byte in data]
    while True:
        found = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not found:
            return symbols
        _, at = min(found)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


def naive_ids(pieces, merges, vocab):
    ids = {token: i for i, token in vocab.items()}
    return [ids[token] for piece in pieces for token in naive(piece.encode(), merges)]


def words(string):
    return re.findall(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s+", string)


def tokenizer(submission, merges=MERGES, **options):
    return submission.BPETokenizer(vocabulary(merges), list(merges), **options)


@points(2)
def test_rank_beats_length(submission):
    """Learnt order decides: with bc, ab, ab + c, bc + d 'abcd' is a, bcd; with aa, aa + a 'aaaaa' is aa, aaa."""
    bpe = tokenizer(submission, [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"bc", b"d")])
    equal(bpe.encode("abcd"), [97, 259])
    equal(bpe.encode("abcabd"), [97, 256, 257, 100])
    equal(bpe.encode("aababc"), [97, 257, 97, 256])
    equal(bpe.encode(""), [])
    # A pair of symbols is merged, not any two that spell a token: (ab, c) is a merge, (a, bc) is none.
    equal(bpe.encode("abc"), [97, 256])
    bpe = tokenizer(submission, [(b"a", b"a"), (b"aa", b"a")])
    equal(bpe.encode("aaaaa"), [256, 257])


def merge_lists(alphabet):
    """Merges over an alphabet, in an order that training need not give: each joins two tokens that exist."""
    return lists(integers(0, 10**6), n=(0, 14)).map(lambda numbers: _merges(alphabet, numbers))


def _merges(alphabet, numbers):
    tokens, merges = [char.encode() for char in alphabet], []
    for number in numbers:
        pair = tokens[number % len(tokens)], tokens[number // 1000 % len(tokens)]
        if pair[0] + pair[1] not in tokens:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return merges


@points(3)
@given(
    case=sampled_from(["ab", "abc", "a"]).flatmap(
        lambda alphabet: merge_lists(alphabet).flatmap(
            lambda merges: lists(sampled_from(list(alphabet)), n=(0, 30)).map(lambda chars: (merges, "".join(chars)))
        )
    ),
    examples=80,
)
def test_small_alphabets(submission, case):
    """Random merges over one to three letters: the leftmost pair of lowest rank, again and again."""
    merges, string = case
    bpe = tokenizer(submission, merges)
    equal(bpe.encode_ordinary(string), naive_ids([string], merges, vocabulary(merges)))


@points(3)
def test_equals_naive_merging(submission):
    """tiktoken's ids on frozen texts, and 3,000 random pieces as plain repeated merging gives them."""
    bpe = tokenizer(submission)
    for string, ids in FROZEN:
        equal(bpe.encode_ordinary(string), ids)
    parts = [
        "the",
        "token",
        "text",
        " ",
        " th",
        "es",
        "in",
        "é",
        "日本",
        "語",
        "токен",
        "😀",
        "👩🏽‍💻",
        "x",
        "9",
        "ok",
        "er",
    ]
    pieces = ["".join(random.choices(parts, k=random.randint(1, 8))) for _ in range(3000)]
    pieces.sort(key=len)
    bpe = tokenizer(submission, split=lambda string: pieces)
    expected = [naive_ids([piece], MERGES, VOCAB) for piece in pieces]
    if bpe.encode_ordinary("".join(pieces)) != [i for ids in expected for i in ids]:
        bpe = tokenizer(submission)
        for piece, ids in zip(pieces, expected, strict=True):
            equal(bpe.encode_ordinary(piece), ids)
        require(False, "the ids of 3,000 pieces together are not the ids of each, one after the other")


@points(2)
def test_pieces(submission):
    """No merge crosses from one piece to the next; without `split` the text is one piece; ids need not follow bytes."""
    string = "the tokens, these texts"
    equal(tokenizer(submission, split=words).encode(string), naive_ids(words(string), MERGES, VOCAB))
    letters = tokenizer(submission, split=list)
    equal(letters.encode(string), list(string.encode()))
    equal(letters.encode_ordinary(string), list(string.encode()))
    equal(letters.encode_bytes(string.encode()), list(string.encode()))
    equal(tokenizer(submission).encode(string), naive_ids([string], MERGES, VOCAB))
    # As in GPT-2, byte b has not the id b; and there are gaps.
    vocab = {3 * ((i * 7) % 256) if i < 256 else 3 * i + 1: token for i, token in VOCAB.items()}
    bpe = submission.BPETokenizer(vocab, MERGES, None, words)
    ids = naive_ids(words(string), MERGES, vocab)
    equal(bpe.encode(string), ids)
    equal(bpe.encode_bytes(string.encode()), ids)
    equal(bpe.decode(ids), string)


@points(2)
@given(string=text(n=(0, 60)), split=sampled_from([None, words, list]), examples=40)
def test_round_trip(submission, string, split):
    """decode(encode(s)) == s for any text: combining marks, emoji sequences, NUL, mixed scripts."""
    bpe = tokenizer(submission, special_tokens=["<|endoftext|>", "\n\n"], **({"split": split} if split else {}))
    equal(bpe.decode(bpe.encode(string)), string, what="decode(encode(s))")
    ids = bpe.encode_ordinary(string)
    equal(ids, naive_ids((split or (lambda s: [s]))(string), MERGES, VOCAB), what="encode_ordinary(s)")
    equal(bpe.decode(ids), string, what="decode(encode_ordinary(s))")
    equal(bpe.encode_bytes(string.encode()), ids, what="encode_bytes of the text's UTF-8")


@points(2)
def test_round_trip_of_many(submission):
    """500 random texts from all of Unicode, in one go and one by one."""
    bpe = tokenizer(submission, split=words)
    planes = [(0, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000), (0x1F300, 0x1FAFF)]
    strings = [
        "".join(chr(random.randrange(*random.choice(planes))) for _ in range(random.randrange(12))) for _ in range(500)
    ]
    joined = "".join(strings)
    equal(bpe.decode(bpe.encode(joined)), joined)
    for string in strings[:60]:
        equal(bpe.decode(bpe.encode(string)), string)


@points(2)
@given(data=binary(n=(0, 60)))
def test_any_bytes(submission, data):
    """decode_bytes(encode_bytes(b)) == b for any bytes; for valid UTF-8 the ids of encode_ordinary."""
    bpe = tokenizer(submission, split=words)
    equal(bpe.decode_bytes(bpe.encode_bytes(data)), data)


@points(2)
def test_broken_utf8(submission):
    """All 256 bytes, truncated, overlong and surrogate sequences, a byte-order mark: nothing is lost."""
    bpe = tokenizer(submission, special_tokens=["<|x|>"], split=words)
    for data in (
        bytes(range(256)),
        bytes(reversed(range(256))),
        "日本".encode()[:-1],
        "a 😀 b".encode()[:-3] + b" c",
        b"\xc0\xaf\xe0\x80\xaf",
        b"\xed\xa0\x80\xed\xb2\xa9 x",
        b"\xff\xfe\xf8\x88\x80\x80\x80",
        b"\xef\xbb\xbfthe",
        b"the\x80tokens\x80",
        b"<|x|>\x80<|x|>",
        b"\r\n\x00",
    ):
        ids = bpe.encode_bytes(data)
        equal(bpe.decode_bytes(ids), data)
        require(256 + len(MERGES) not in ids, "encode_bytes used the special token's id", got=ids)
    for string in ("", "the tokens", "日本語 текст 👩🏽‍💻", "a\u0000b<|x|>"):
        equal(bpe.encode_bytes(string.encode()), bpe.encode_ordinary(string))


@points(3)
def test_special_tokens(submission):
    """Longest first, adjacent, at both ends, literal characters; and never in encode_ordinary."""
    first = 256 + len(MERGES)
    special_tokens = ["<|a|>", "<|a|><|a|>", ".*", "[th]", "a|b", "\\d+", "日本語"]
    ids = {token: first + i for i, token in enumerate(special_tokens)}
    bpe = tokenizer(submission, special_tokens=special_tokens, split=words)

    def ordinary(string):
        return naive_ids(words(string), MERGES, VOCAB)

    for parts in (
        ["<|a|>"],
        ["<|a|><|a|>"],
        ["<|a|><|a|>", "<|a|>"],
        ["the ", "<|a|><|a|>", " text"],
        ["<|a|>", "the", "<|a|>"],
        [".*", "the", ".*"],
        ["th", "[th]", "e", "a|b", "a", "\\d+", "42"],
        ["<|a", "日本語", "|>"],
        ["日本語", "日本", "日本語"],
        ["the tokens", "<|a|>", "ens token"],
    ):
        string = "".join(parts)
        expected = [i for part in parts for i in ([ids[part]] if part in ids else ordinary(part))]
        equal(bpe.encode(string), expected)
        equal(bpe.decode(expected), string)
        plain = bpe.encode_ordinary(string)
        require(max(plain) < first, "encode_ordinary used the id of a special token", got=plain)
        equal(plain, ordinary(string), what="encode_ordinary")
        equal(bpe.decode(plain), string)
    # The longer one first in the list, too.
    bpe = tokenizer(submission, special_tokens=["<|a|><|a|>", "<|a|>"])
    equal(bpe.encode("<|a|><|a|><|a|>"), [first, first + 1])


@points(2)
def test_ids_of_missing_specials(submission):
    """A special token that is in the vocabulary keeps its id; the others follow the largest one, in order."""
    vocab = VOCAB | {900: b"<s>", 1000: b"<pad>"}
    bpe = submission.BPETokenizer(vocab, MERGES, ["</s>", "<pad>", "<unk>", "<s>", "é!"])
    equal(bpe.encode("<s>é!</s><pad><unk>"), [900, 1003, 1001, 1000, 1002])
    equal(bpe.decode([1001, 1002, 1003, 900, 1000]), "</s><unk>é!<s><pad>")
    # Without being named as special, a token of the vocabulary that no merge makes is never used.
    bpe = submission.BPETokenizer(vocab, MERGES)
    require(not {900, 1000} & set(bpe.encode("<s><pad>")), "used a token that is neither special nor made by a merge")
    # One tokenizer's special tokens are not the next one's: the arguments are not changed.
    fewer = submission.BPETokenizer(vocab, MERGES, ["<unk>"])
    equal(fewer.encode("<unk>"), [1001])


@points(3)
def test_streaming(submission):
    """Each push gives exactly the characters that are complete by then; with finish it is all that decode gives."""
    bpe = tokenizer(submission)
    for string in ("the 日本語 token", "é😀👩🏽‍💻ü", "a\ufffdb", "한국어 ไทย नमस्ते 𝒳", "x"):
        for ids in (list(string.encode()), bpe.encode_ordinary(string)):
            stream = submission.StreamDecoder(bpe)
            data = b""
            shown = ""
            for i in ids:
                data += VOCAB[i]
                complete = data.decode("utf-8", "ignore")
                equal(stream.push(i), complete[len(shown) :], what=f"push({i}) after {shown!r}")
                shown = complete
            equal(stream.finish(), "", what="finish() of a complete text")
    # Two streams at a time do not mix.
    one, two = submission.StreamDecoder(bpe), submission.StreamDecoder(bpe)
    equal([one.push(0xC3), two.push(0xE6), one.push(0xA9), two.push(0x97), two.push(0xA5)], ["", "", "é", "", "日"])


@points(1)
@given(data=binary(n=(0, 30)) | lists(sampled_from(list("é日😀 a".encode())), n=(0, 20)).map(bytes))
def test_streaming_any_bytes(submission, data):
    """All pushes and finish, joined, are what decode gives, for any bytes."""
    bpe = tokenizer(submission)
    ids = bpe.encode_bytes(data)
    stream = submission.StreamDecoder(bpe)
    pushes = [stream.push(i) for i in ids]
    equal("".join(pushes) + stream.finish(), bpe.decode(ids), what="pushes and finish, joined")
    equal(bpe.decode(ids), data.decode("utf-8", "replace"), what="decode")


@points(2)
def test_lazy_iterable(submission):
    """A chunk is pulled when all ids of the earlier ones were taken; special tokens count in each chunk by itself."""
    bpe = tokenizer(submission, special_tokens=["<s>"], split=words)
    chunks = ["the tokens<s>", "", "日本語", "<", "s> text"]
    pulled = []

    def source():
        for chunk in chunks:
            pulled.append(chunk)
            yield chunk

    expected = [i for chunk in chunks for i in bpe.encode(chunk)]
    first = len(bpe.encode(chunks[0]))
    stream = iter(bpe.encode_iterable(source()))
    taken = [next(stream) for _ in range(first)]
    equal(len(pulled), 1, what="chunks pulled when only the first one's ids were taken")
    taken += list(stream)
    equal(taken, expected)
    equal(list(bpe.encode_iterable(chunks)), expected, what="ids of a list of chunks")
    equal(list(bpe.encode_iterable([])), [])


@points(2)
def test_decode_errors(submission):
    """Bytes that are no UTF-8 become U+FFFD; an unknown id is a ValueError, a lone surrogate a UnicodeEncodeError."""
    bpe = tokenizer(submission, special_tokens=["<s>"])
    equal(bpe.decode([0x80]), "\ufffd")
    equal(bpe.decode([0x61, 0xE6, 0x97, 0x62]), "a\ufffdb")
    equal(bpe.decode(iter([0xE6, 0x97, 0xA5])), "日")
    equal(bpe.decode_bytes(iter([0xE6, 256 + len(MERGES), 0x97])), b"\xe6<s>\x97")
    equal(bpe.decode([]), "")
    equal(bpe.decode_bytes([]), b"")
    for unknown in (257 + len(MERGES), 10**6, -1):
        with raises(ValueError):
            bpe.decode_bytes([97, unknown])
        with raises(ValueError):
            bpe.decode([unknown])
        stream = submission.StreamDecoder(bpe)
        with raises(ValueError):
            stream.push(unknown)
    for string in ("a\ud800", "\udcff"):
        with raises(UnicodeEncodeError):
            bpe.encode(string)
        with raises(UnicodeEncodeError):
            bpe.encode_ordinary(string)


# ---- cost


def doublings(largest):
    """(a, a), (aa, aa), ... up to `largest` letters."""
    merges, size = [], 1
    while size < largest:
        merges.append((b"a" * size, b"a" * size))
        size *= 2
    return merges


def letter_merges():
    """All pairs of twelve letters in random order, then 300 of pairs."""
    letters = [bytes([byte]) for byte in b"abcdefghijkl"]
    pairs = [(left, right) for left in letters for right in letters]
    random.shuffle(pairs)
    longer = {(random.choice(pairs), random.choice(pairs)) for _ in range(300)}
    return pairs + sorted((left[0] + left[1], right[0] + right[1]) for left, right in longer)


def ranks_in_order(string, merges):
    """Ids of a piece where every merge ranks below those that make its parts: one replacement after the other."""
    symbols = {bytes([byte]): chr(byte) for byte in range(256)}
    for rank, (left, right) in enumerate(merges):
        new = symbols[left + right] = chr(256 + rank)
        string = string.replace(symbols[left] + symbols[right], new)
    return list(map(ord, string))


@needs("rank_beats_length")
@points(3)
def test_cost_of_a_long_piece(submission):
    """From 400 to 800 bytes in one piece the executed lines grow at most 2.4-fold."""
    letters = letter_merges()
    for merges, alphabet in ((doublings(512), "a"), (letters, "abcdefghijkl")):
        bpe = tokenizer(submission, merges)

        def lines(n, bpe=bpe, merges=merges, alphabet=alphabet):
            string = "".join(random.choices(alphabet, k=n))
            with executed_lines(submission) as cost:
                ids = bpe.encode_ordinary(string)
            equal(ids, ranks_in_order(string, merges))
            return cost

        growth(lines, 400, 800).at_most(2.4, "about n log n")


@needs("rank_beats_length")
@points(2)
def test_cost_of_a_very_long_piece(submission):
    """A piece of 50,000 bytes is done within the time limit."""
    bpe = tokenizer(submission, doublings(1024))
    equal(bpe.encode_ordinary("a" * 50_000), [265] * 48 + [264, 263, 261, 259], what="ids of 50,000 times a")
    merges = letter_merges()
    string = "".join(random.choices("abcdefghijkl", k=50_000))
    equal(tokenizer(submission, merges).encode_ordinary(string), ranks_in_order(string, merges))
