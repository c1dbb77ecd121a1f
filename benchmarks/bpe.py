"""Chapter 2.1's BPE against the package `tokenizers`, as ratios taken in one run: `python benchmarks/bpe.py`.

The text is made from a seed: Zipf's law over invented words in several scripts, code and emoji. Both sides run in one
thread, alternate, and read the same pieces (GPT-2's pattern); processor times are compared. Needs the extra `peers`.
"""

from __future__ import annotations

import os

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before tokenizers is imported

import argparse
import importlib.util
import math
import random
import statistics
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOLUTIONS = ROOT / "solutions" / "02_transformer" / "01_tokenization"

# share of the text, words in the lexicon, beginnings and middles of syllables, what stands between words
LANGUAGES = {
    "english": (0.40, 60_000, "t s r n d l c m p b f g h w v k st tr ch sh th pr", "e a i o u ea ou", " "),
    "german": (0.10, 40_000, "s n r t d l g b m sch f k w z ß pf", "e i a u o ä ö ü ei au", " "),
    "russian": (0.10, 40_000, "н т с р в л к м д п б з г ч ш ж", "о е а и ы у я ю", " "),
    "hindi": (0.05, 15_000, "क र न स त म ल प ह द व ब ग", " ा ि ी े ो ं ्", " "),
    "arabic": (0.05, 15_000, "ا ل ب ت م ن ر س ع د ح ك ف ق ه", " ا ي و", " "),
    "chinese": (0.12, 30_000, " ".join(chr(0x4E00 + 7 * i) for i in range(1500)), "", ""),
}
CODE_SHARE = 0.15
CODE = (
    "def {a}({b}, {c}=None):\n    return {b}.{c}[{n}] + self.{a}\n",
    "    for {a} in range({n}):\n        {b}[{a}] = {c}({a}, {b})\n",
    "if ({a} != {b}) {{ {c} += {n}; }} // {a}\n",
    '{{"{a}": "{b}", "{c}": [{n}, {m}]}},\n',
    "SELECT {a}, {b} FROM {c} WHERE {a} >= {n};\n",
)
EMOJI = ["😀", "😂", "❤️", "👍🏽", "🎉", "👩🏽‍💻", "🇩🇪", "🔥", "…", "—"]


class Lexicon:
    """Invented words with Zipf's frequencies: the word of rank r comes with a share of 1 / (r + 2.7)."""

    def __init__(self, rng: random.Random, size: int, beginnings: str, ends: str) -> None:
        onsets, middles = beginnings.split(" "), ends.split(" ")

        def syllable() -> str:
            return rng.choice(onsets[: 1 + int(len(onsets) * rng.random())]) + rng.choice(middles)

        self.words = ["".join(syllable() for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))) for _ in range(size)]
        self.cumulative = list(accumulate(1 / (rank + 2.7) for rank in range(size)))
        self.rng = rng

    def draw(self, count: int) -> list[str]:
        """Words by frequency."""
        return self.rng.choices(self.words, cum_weights=self.cumulative, k=count)


def make_paragraphs(size: int, seed: int = 0) -> list[str]:
    """About `size` bytes of UTF-8."""
    rng = random.Random(seed)
    lexicons = {name: Lexicon(rng, *options[1:4]) for name, options in LANGUAGES.items()}
    names = [*LANGUAGES, "code"]
    shares = [*(options[0] for options in LANGUAGES.values()), CODE_SHARE]
    paragraphs: list[str] = []
    made = 0
    while made < size:
        # One paragraph of some 600 bytes in each round, so that shares are shares of bytes.
        name = rng.choices(names, shares)[0]
        paragraph = code(rng, lexicons["english"]) if name == "code" else prose(rng, lexicons[name], LANGUAGES[name][4])
        paragraphs.append(paragraph)
        made += len(paragraph.encode())
    return paragraphs


def prose(rng: random.Random, lexicon: Lexicon, between: str) -> str:
    """A few sentences, with a number or an emoji now and then."""
    sentences: list[str] = []
    size = 0
    while size < 600:
        words = lexicon.draw(rng.randint(4, 16))
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), str(rng.choice((rng.randint(0, 99), rng.randint(1900, 2030)))))
        if rng.random() < 0.1:
            words.append(rng.choice(EMOJI))
        sentence = between.join(words).capitalize() + rng.choice((". ", ", ", ".\n", "? ", "! ", " — "))
        sentences.append(sentence)
        size += len(sentence.encode())
    return "".join(sentences) + "\n\n"


def code(rng: random.Random, lexicon: Lexicon) -> str:
    """Some lines with identifiers from the lexicon."""
    lines: list[str] = []
    size = 0
    while size < 600:
        a, b, c = ("_".join(lexicon.draw(rng.choice((1, 1, 2)))) for _ in range(3))
        line = rng.choice(CODE).format(a=a, b=b, c=c, n=rng.randint(0, 300), m=rng.randint(0, 9))
        lines.append(line)
        size += len(line)
    return "".join(lines)


def load(name: str) -> ModuleType:
    """One of the chapter's reference solutions."""
    spec = importlib.util.spec_from_file_location(name, SOLUTIONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time that it takes (one thread, so a busy machine does not count), and what it returns."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def main() -> None:
    """Measures and prints."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5.0)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    split = load("pretokenizer").gpt2_split
    byte_to_unicode = load("pretokenizer").byte_to_unicode()
    train = load("bpe_trainer").train_bpe
    codec = load("bpe_codec")

    def shown(token: bytes) -> str:
        return "".join(byte_to_unicode[byte] for byte in token)

    def byte_level() -> Any:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)

    def peer_trains(text: str) -> Any:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = byte_level()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=options.vocab, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator([text], trainer)
        return tokenizer

    paragraphs = make_paragraphs(int(1e6 * options.megabytes))
    text = "".join(paragraphs)
    fifth = "".join(make_paragraphs(int(1e6 * options.megabytes / 5)))
    size, small = len(text.encode()), len(fifth.encode())
    pieces = split(text)
    print(f"text: {size / 1e6:.2f} MB, {len(pieces):,} pieces, {len(set(pieces)):,} of them distinct, seed 0")

    times: dict[str, list[float]] = {"ours": [], "fifth": [], "peer": []}
    for _ in range(options.rounds):
        took, (vocab, merges) = seconds(lambda: train(text, options.vocab, [], split))
        times["ours"].append(took)
        took, peer = seconds(lambda: peer_trains(text))
        times["peer"].append(took)
        took, _ = seconds(lambda: train(fifth, options.vocab, [], split))
        times["fifth"].append(took)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(times["ours"], times["peer"], strict=True))
    growth = statistics.median(large / little for large, little in zip(times["ours"], times["fifth"], strict=True))
    bound = size * math.log(size) / (small * math.log(small))
    took, other = statistics.median(times["ours"]), statistics.median(times["peer"])
    print(f"training to {options.vocab:,} tokens: {ratio:.2f} x tokenizers' trainer ({took:.2f} s, {other:.2f} s)")
    print(f"growth from {small / 1e6:.2f} MB: {growth:.2f} x, n log n would be {bound:.2f} x")

    # Encoding: both with our merges, so that the ids can be compared.
    table = {shown(token): i for i, token in vocab.items()}
    peer = Tokenizer(models.BPE(vocab=table, merges=[(shown(left), shown(right)) for left, right in merges]))
    peer.pre_tokenizer = byte_level()
    ours, theirs = [], []
    for _ in range(options.rounds):
        tokenizer = codec.BPETokenizer(vocab, merges, split=split)
        took, ids = seconds(lambda encode=tokenizer.encode: [encode(paragraph) for paragraph in paragraphs])
        ours.append(took)
        took, peer_ids = seconds(lambda: [peer.encode(paragraph).ids for paragraph in paragraphs])
        theirs.append(took)
        assert ids == peer_ids, "the two give different ids"
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    rate, peer_rate = (size / 1e6 / statistics.median(times) for times in (ours, theirs))
    tokens = sum(map(len, ids))
    print(
        f"encoding it: {ratio:.2f} x tokenizers' time ({rate:.2f} MB/s, {peer_rate:.2f} MB/s), the same {tokens:,} ids"
    )
    print(f"bytes per token: {size / tokens:.2f}")


if __name__ == "__main__":
    main()
