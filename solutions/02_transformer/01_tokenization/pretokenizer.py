"""Before the merges: cut text into pieces that no merge may cross, and measure what a tokenizer costs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

### BEGIN SOLUTION
# ASCII has letters, numbers, whitespace and others, and re knows them all.
_GPT2 = re.compile(r"'(?:[stmd]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)


class _StandIns(dict):
    """For each code point an ASCII character of the same class; ASCII stands for itself. Filled as characters come."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if code < 128:
            stand_in = char
        elif category.startswith("L"):
            stand_in = "A"
        elif category.startswith("N"):
            stand_in = "0"
        elif char.isspace():
            stand_in = "\t"
        else:
            stand_in = "!"
        self[code] = stand_in
        return stand_in


_stand_ins = _StandIns()


def _is_number(char: str) -> bool:
    return unicodedata.category(char).startswith("N")


### END SOLUTION


def gpt2_split(text: str) -> list[str]:
    """GPT-2's pretokenizer: cut `text` into pieces, in order, whose concatenation is `text`; "" gives [].

    Every character belongs to one of four classes, by its Unicode category (`unicodedata.category`):

        letter      categories L* (so 一 and é, but no combining mark: U+0301 is Mn)
        number      categories N* (so 7, ², Ⅷ and ٣)
        whitespace  Unicode's White_Space property: str.isspace() without U+001C to U+001F
        other       the rest: punctuation, symbols, emoji, marks, controls, lone surrogates

    At each position the first rule that fits cuts off a piece, as long as it can be:

        1. one of 's 't 'm 'd 'll 've 're, with the apostrophe U+0027 and in lower case only
        2. an optional single space U+0020 (no tab, no other whitespace), then one or more letters
        3. the same optional space, then one or more numbers
        4. the same optional space, then one or more others
        5. a run of two or more whitespace characters that something else follows: all of the run but its last one
        6. the whole run of whitespace

    "I've  GPT-2's   " gives ["I", "'ve", " ", " GPT", "-", "2", "'s", "   "].

    The published pattern is 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+ and
    needs the third-party package `regex`: Python's own `re` knows neither \\p{L} nor \\p{N}, and its \\d and \\w draw
    other lines.

    Cost: the executed lines grow at most 2.2 times when a text doubles (one of 600 spaces, or any of 20,000
    characters), and 400,000 spaces in one run are done within the time limit.
    """
    ### BEGIN SOLUTION
    shadow = text.translate(_stand_ins)
    return [text[match.start() : match.end()] for match in _GPT2.finditer(shadow)]
    ### END SOLUTION


def byte_to_unicode() -> dict[int, str]:
    """GPT-2's reversible table from the 256 bytes to 256 different printable characters, which vocabulary files show.

    The bytes 33-126, 161-172 and 174-255 are printable in Latin-1 and map to chr(byte). The other 68, in increasing
    order, map to chr(256), chr(257), ..., chr(323). So 32, the space, becomes "Ġ" and 10, the line feed, "Ċ".
    """
    ### BEGIN SOLUTION
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    ### END SOLUTION


def split_numbers(pieces: list[str], size: int, from_right: bool) -> list[str]:
    """Cut long numbers into groups, so that a token always means the same power of ten (arXiv:2402.14903).

    A piece that is an optional U+0020 followed by numbers only (category N*, at least one, no sign or point) is cut
    into groups of `size` characters:

        from_right False   counted from the left, the last group may be shorter    "1234567" by 3: "123", "456", "7"
        from_right True    counted from the right, the first group may be shorter  "1234567" by 3: "1", "234", "567"

    The space is not counted and stays with the first group: " 1234" by 3 gives " 123", "4" or " 1", "234". All other
    pieces ("a1234b", "-12", " ", "") pass through as they are. Returns all pieces in order; `pieces` is not changed.

    ValueError if size < 1.
    """
    ### BEGIN SOLUTION
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}")
    result = []
    for piece in pieces:
        digits = piece.removeprefix(" ")
        if not digits or not all(map(_is_number, digits)):
            result.append(piece)
            continue
        first = len(digits) % size if from_right else 0
        cuts = [0, *range(first or size, len(digits), size), len(digits)]
        groups = [digits[start:end] for start, end in pairwise(cuts)]
        groups[0] = piece[: len(piece) - len(digits)] + groups[0]
        result += groups
    return result
    ### END SOLUTION


def bytes_per_token(texts: list[str], encode: Callable[[str], list[int]]) -> float:
    """How much text a token carries: UTF-8 bytes of all texts / tokens of all texts.

    A ratio of totals over the corpus, not a mean of the texts' ratios: a short text must not weigh as much as a long
    one. encode(text) gives the token ids of one text. ValueError if there are no tokens.
    """
    ### BEGIN SOLUTION
    tokens = sum(len(encode(text)) for text in texts)
    if tokens == 0:
        raise ValueError("no tokens")
    return sum(len(text.encode()) for text in texts) / tokens
    ### END SOLUTION


def fertility(texts: list[str], encode: Callable[[str], list[int]]) -> float:
    """How many tokens a word costs: tokens of all texts / words of all texts (arXiv:2012.15524).

    Words are what str.split() gives; texts are encoded whole, spaces included. Like `bytes_per_token` a ratio of
    totals. ValueError if there are no words.
    """
    ### BEGIN SOLUTION
    words = sum(len(text.split()) for text in texts)
    if words == 0:
        raise ValueError("no words")
    return sum(len(encode(text)) for text in texts) / words
    ### END SOLUTION
