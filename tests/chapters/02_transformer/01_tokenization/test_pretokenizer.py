"""Hidden tests: GPT-2's split, its byte table, number groups, and two ratios.

Oracles: pieces frozen from the published pattern run with the package `regex`; the six rules as a scanner, which agrees
with that package on every assigned character (tests/peers).
"""

import random
import unicodedata

from grader.testing import (
    booleans,
    close,
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

WHITESPACE = {9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
"""Unicode's White_Space property."""

NASTY = list("aZé一ñstmdlvreSTDLV'’ 0١²Ⅷ½ \t\n\r\x1c\x1f\x85\u3000\xa0\u2028\u0301\u200d\ud83d_-.!€😀𝒳 '  ")

FROZEN = (
    ("Hello, world! It's 2024-05-01.", ["Hello", ",", " world", "!", " It", "'s", " 2024", "-", "05", "-", "01", "."]),
    (
        "she'd've  said:\t\"don't\"\r\n\r\n  OK",
        ["she", "'d", "'ve", " ", " said", ":", "\t", '"', "don", "'t", '"', "\r\n\r\n ", " OK"],
    ),
    ("  leading and trailing  ", [" ", " leading", " and", " trailing", "  "]),
    (
        "def f(x):\n    return x**2  # \xb2\n",
        ["def", " f", "(", "x", "):", "\n   ", " return", " x", "**", "2", " ", " #", " \xb2", "\n"],
    ),
    (
        "\u4fa1\u683c\u306f\xa51,234\u3067\u3059\u3002",
        ["\u4fa1\u683c\u306f", "\xa5", "1", ",", "234", "\u3067\u3059", "\u3002"],
    ),
    ("\u2167 + \xbd = \u2177", ["\u2167", " +", " \xbd", " =", " \u2177"]),
    (
        "na\xefve caf\xe9 \u2014 'quoted' \u2018curly\u2019",
        ["na\xefve", " caf\xe9", " \u2014", " '", "quoted", "'", " \u2018", "curly", "\u2019"],
    ),
    ("\xa0\xa0x\u3000y", ["\xa0", "\xa0", "x", "\u3000", "y"]),
    (
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663",
        ["\u0645\u0631\u062d\u0628\u0627", " \u0628\u0627\u0644\u0639\u0627\u0644\u0645", " \u0661\u0662\u0663"],
    ),
    (
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
        [
            "\u0928\u092e\u0938",
            "\u094d",
            "\u0924",
            "\u0947",
            " \u0926",
            "\u0941",
            "\u0928",
            "\u093f",
            "\u092f",
            "\u093e",
        ],
    ),
    (
        "\U0001f469\U0001f3fd\u200d\U0001f4bb codes \U0001f1e9\U0001f1ea!",
        ["\U0001f469\U0001f3fd\u200d\U0001f4bb", " codes", " \U0001f1e9\U0001f1ea!"],
    ),
    ("a\x1cb \x1d c\x85d", ["a", "\x1c", "b", " \x1d", " c", "\x85", "d"]),
    ("x'sy's'll'LL 're''ve", ["x", "'s", "y", "'s", "'ll", "'", "LL", " '", "re", "''", "ve"]),
    ("   \n \n\t", ["   \n \n\t"]),
    ("\t x", ["\t", " x"]),
    ("https://a.b/c?d=1&e=%20", ["https", "://", "a", ".", "b", "/", "c", "?", "d", "=", "1", "&", "e", "=%", "20"]),
    ("SELECT * FROM t WHERE id=10;", ["SELECT", " *", " FROM", " t", " WHERE", " id", "=", "10", ";"]),
    (
        "e\u0301 n\u0303 \ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22",
        ["e", "\u0301", " n", "\u0303", " \ud55c\uad6d\uc5b4", " \u0e44\u0e17\u0e22"],
    ),
    ("\ufeffBOM\u200bzero\u2060", ["\ufeff", "BOM", "\u200b", "zero", "\u2060"]),
    (
        "0x1F 1e-9 3.14 1_000 \uff11\uff12",
        ["0", "x", "1", "F", " 1", "e", "-", "9", " 3", ".", "14", " 1", "_", "000", " \uff11\uff12"],
    ),
)
"""Texts and their pieces, from the published pattern under `regex`."""


def character_class(char):
    if ord(char) in WHITESPACE:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(char)[0], "other")


def scanned(string):
    """The six rules, one position after the other."""
    pieces, at = [], 0
    classes = [character_class(char) for char in string] + ["end"]

    def run(start):
        end = start
        while classes[end] == classes[start]:
            end += 1
        return end

    while at < len(string):
        contraction = next((c for c in ("'s", "'t", "'m", "'d", "'ll", "'ve", "'re") if string.startswith(c, at)), "")
        after_space = at + (string[at] == " ")
        if contraction:
            end = at + len(contraction)
        elif classes[after_space] not in ("space", "end"):
            end = run(after_space)
        else:
            end = run(at)
            if classes[end] != "end" and end - at > 1:
                end -= 1
        pieces.append(string[at:end])
        at = end
    return pieces


@points(2)
def test_worked_examples(submission):
    """Contractions, a lonely space before a word, white space at the end: by hand."""
    for string, pieces in (
        ("I've  GPT-2's   ", ["I", "'ve", " ", " GPT", "-", "2", "'s", "   "]),
        ("don't DON'T 'tis", ["don", "'t", " DON", "'", "T", " '", "tis"]),
        ("a\n\n b", ["a", "\n\n", " b"]),
        ("tab\t\tx", ["tab", "\t", "\t", "x"]),
        ("we'll they're I'm he'd it's", ["we", "'ll", " they", "'re", " I", "'m", " he", "'d", " it", "'s"]),
        ("a \n1", ["a", " ", "\n", "1"]),
        ("a b", ["a", " b"]),
    ):
        equal(submission.gpt2_split(string), pieces)


@points(2)
def test_unicode_classes(submission):
    """Letters, numbers and white space are Unicode's, not ASCII's and not re's."""
    for string, pieces in (
        ("x²+1=10", ["x", "²", "+", "1", "=", "10"]),
        ("Ⅷ½٣", ["Ⅷ½٣"]),
        ("e\u0301x", ["e", "\u0301", "x"]),
        ("a\x1c\x1fb", ["a", "\x1c\x1f", "b"]),
        (" \x1c", [" \x1c"]),
        ("中文 一二", ["中文", " 一二"]),
        ("ñandú_x", ["ñandú", "_", "x"]),
        ("a\u3000\xa0b", ["a", "\u3000", "\xa0", "b"]),
        ("hi👩🏽\u200d💻!", ["hi", "👩🏽\u200d💻!"]),
        ("a\ud83d 1", ["a", "\ud83d", " 1"]),
        ("it’s", ["it", "’", "s"]),
    ):
        equal(submission.gpt2_split(string), pieces)


@points(3)
@given(string=lists(sampled_from(NASTY), n=(0, 24)).map("".join), examples=120)
def test_follows_the_rules(submission, string):
    """Random texts over a nasty alphabet: what the six rules say."""
    equal(submission.gpt2_split(string), scanned(string))


@points(3)
def test_matches_the_regex(submission):
    """Texts frozen from the published pattern, and 3,000 random ones over a nasty alphabet."""
    for string, pieces in FROZEN:
        equal(submission.gpt2_split(string), pieces)
    strings = ["".join(random.choices(NASTY, k=random.randrange(40))) for _ in range(3000)]
    results = submission.many("gpt2_split", [((string,), {}) for string in strings])
    for string in sorted((s for s, got in zip(strings, results, strict=True) if got != scanned(s)), key=len)[:1]:
        equal(submission.gpt2_split(string), scanned(string))


@points(1)
@given(string=text(n=(0, 200)), surrogate=sampled_from(["", "\ud800", "\udfff "]))
def test_lossless(submission, string, surrogate):
    """The pieces of any text, joined, are the text; none is empty."""
    string = surrogate + string
    pieces = submission.gpt2_split(string)
    require(isinstance(pieces, list) and all(isinstance(p, str) for p in pieces), "not a list of str", got=pieces)
    equal("".join(pieces), string, what="the pieces, joined")
    require("" not in pieces, "a piece is empty", got=pieces)


@points(1)
def test_byte_table(submission):
    """256 different printable characters: printable bytes stay, the others count up from 256."""
    expected, more = {}, 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174:
            expected[byte] = chr(byte)
        else:
            expected[byte], more = chr(more), more + 1
    table = submission.byte_to_unicode()
    equal(table, expected)
    equal("".join(table[byte] for byte in " é\n".encode()), "ĠÃ©Ċ", what="' é\\n' in GPT-2's characters")


@points(2)
def test_digit_groups(submission):
    """1234567 by 3 from either side; the space stays with the first group; other pieces pass through."""
    for pieces, size, from_right, expected in (
        (["1234567"], 3, False, ["123", "456", "7"]),
        (["1234567"], 3, True, ["1", "234", "567"]),
        ([" 1234"], 3, False, [" 123", "4"]),
        ([" 1234"], 3, True, [" 1", "234"]),
        ([" 123", "456"], 3, True, [" 123", "456"]),
        ([" 12", "7"], 3, True, [" 12", "7"]),
        (["a1234b", " ", "", "-1234", "  1234", "\t1234", "1234 ", "1234\n", "12.34"], 3, True, None),
        (["²³Ⅷ٣", " ½½½"], 2, False, ["²³", "Ⅷ٣", " ½½", "½"]),
        ([" 123"], 1, True, [" 1", "2", "3"]),
        ([], 1, False, []),
    ):
        equal(submission.split_numbers(pieces, size, from_right), pieces if expected is None else expected)
    for size in (0, -1):
        with raises(ValueError):
            submission.split_numbers(["12"], size, True)


@points(2)
@given(
    pieces=lists(
        lists(sampled_from(list("1234567890 ²a")), n=(0, 9)).map("".join) | integers(0, 10**12).map(str), n=(0, 5)
    ),
    size=integers(1, 5),
    from_right=booleans(),
)
def test_digit_groups_of_any_size(submission, pieces, size, from_right):
    """Any pieces, sizes 1 to 5, from the left and from the right."""
    expected = []
    for piece in pieces:
        space, digits = (" ", piece[1:]) if piece[:1] == " " else ("", piece)
        if not digits or {character_class(char) for char in digits} != {"number"}:
            expected.append(piece)
            continue
        line = digits[::-1] if from_right else digits
        groups = [line[i : i + size] for i in range(0, len(line), size)]
        if from_right:
            groups = [group[::-1] for group in reversed(groups)]
        expected += [space + groups[0], *groups[1:]]
    equal(submission.split_numbers(pieces, size, from_right), expected)


@points(2)
def test_costs_are_corpus_ratios(submission):
    """Total over total, bytes not characters, words as str.split() gives them; ValueError where there is nothing."""
    texts = ["naïve café", "a\n  much longer text of many words, 東京 included ", "x"]
    encode = counting(lambda string: list(range(2 + len(string) // 3)))
    tokens = sum(2 + len(string) // 3 for string in texts)
    close(submission.bytes_per_token(texts, encode), sum(len(string.encode()) for string in texts) / tokens)
    require(
        sorted(args[0] for args, _ in encode.arguments) == sorted(texts),
        "encode must be called once for each text, with the whole text",
        got=[args[0] for args, _ in encode.arguments],
    )
    close(submission.fertility(texts, encode), tokens / 12)
    close(submission.fertility(["", "two words"], lambda string: [7] * len(string)), 4.5)
    with raises(ValueError):
        submission.bytes_per_token(["abc", ""], lambda string: [])
    with raises(ValueError):
        submission.bytes_per_token([], lambda string: [1])
    with raises(ValueError):
        submission.fertility([" \n", ""], lambda string: [1])


@needs("worked_examples")
@points(2)
def test_cost_grows_with_the_length(submission):
    """When a text doubles the executed lines grow at most 2.2-fold; so for one long run of spaces, too."""

    def mixed(n):
        return ("It's 2024,  isn't it?\n\n\tNa\u00efve caf\u00e9s \u6771\u4eac \u00b2 !" * (n // 40 + 1))[:n]

    for make, small in (
        (lambda n: " " * n, 600),
        (lambda n: " " * (n - 1) + "x", 600),
        (lambda n: "x" * n, 20_000),
        (mixed, 20_000),
    ):

        def lines(n, make=make):
            with executed_lines(submission) as cost:
                submission.gpt2_split(make(n))
            return cost

        growth(lines, small, 2 * small).at_most(2.2, "work in proportion to the text")
    # What a line count cannot see (slices, look-ahead inside re) shows at this length.
    equal(submission.gpt2_split(" " * 400_000 + "x"), [" " * 399_999, " x"])
