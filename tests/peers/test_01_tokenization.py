"""Chapter 2.1 against the libraries of the field: regex, tiktoken, tokenizers, sentencepiece."""

from __future__ import annotations

import io
import math
import random
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from reference import module_at, solution

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "02_transformer/01_tokenization"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

TEXT = (
    """
The tokenizer decides what a model can see: it's 2024, they've 1,234 tokens, and we'll   count "them".
Der Tokenizer übersetzt Wörter in Zahlen; für Umlaute braucht er mehr Bytes. Größe zählt, sagt Jürgen.
Les modèles préfèrent les mots fréquents, n'est-ce pas ? L'été à Genève : où êtes-vous ?
Токенизатор разбивает текст на токены. Чем реже слово, тем больше токенов.
日本語のテキストを分割する。単語の間に空白はありません。 東京都、京都府。
한국어는 띄어쓰기를 합니다. มันเป็นภาษาไทย नमस्ते दुनिया مرحبا بالعالم שלום עולם
def train_bpe(text: str, vocab_size: int) -> dict[int, bytes]:
\treturn {i: bytes([i]) for i in range(256)}  # ²³ ½ Ⅷ

😀😂 👩🏽‍💻 👍🏽👍🏽 🇩🇪🇯🇵 ❤️ e\u0301 n\u0303 \u200b\ufeff \u0000 \ufffd ......
"""
    * 6
)


pretokenizer = solution(CHAPTER, "pretokenizer")
bpe_trainer = solution(CHAPTER, "bpe_trainer")
bpe_codec = solution(CHAPTER, "bpe_codec")
wordpiece = solution(CHAPTER, "wordpiece")
unigram_lm = solution(CHAPTER, "unigram_lm")
byte_to_unicode = pretokenizer.byte_to_unicode()


def shown(token: bytes) -> str:
    """A token in GPT-2's printable characters."""
    return "".join(byte_to_unicode[byte] for byte in token)


@pytest.fixture
def tokenizers() -> Any:
    return pytest.importorskip("tokenizers", reason="Hugging Face's tokenizers, a peer of 2.1, is not installed")


@pytest.fixture
def tiktoken() -> Any:
    return pytest.importorskip("tiktoken", reason="OpenAI's tiktoken, a peer of 2.1, is not installed")


@pytest.fixture
def regex() -> Any:
    return pytest.importorskip("regex", reason="the package regex, a peer of 2.1, is not installed")


@pytest.fixture
def sentencepiece() -> Any:
    return pytest.importorskip("sentencepiece", reason="Google's sentencepiece, a peer of 2.1, is not installed")


@pytest.fixture(scope="module")
def trained() -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """300 merges and one special token, by our trainer."""
    result: tuple[dict[int, bytes], list[tuple[bytes, bytes]]] = bpe_trainer.train_bpe(
        TEXT, 257 + 300, ["<|endoftext|>"], pretokenizer.gpt2_split
    )
    return result


# ---- pretokenizer


def test_split_is_the_published_pattern_for_every_character(regex: Any) -> None:
    pattern = regex.compile(GPT2)
    scanned = module_at(f"tests/chapters/{CHAPTER}/test_pretokenizer.py").scanned
    # regex knows a newer Unicode than this Python: characters that are new there have no class here.
    assigned = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) != "Cn"]
    for start in range(0, len(assigned), 5000):
        text = "".join(f"a{char}1 {char}{char} !\n" for char in assigned[start : start + 5000])
        assert pretokenizer.gpt2_split(text) == pattern.findall(text) == scanned(text)


def test_split_is_the_published_pattern_on_random_texts(regex: Any) -> None:
    pattern = regex.compile(GPT2)
    alphabet = "aZé一ñstmdlvreSTDLV'’ 0١²Ⅷ½ \t\n\r\x1c\x85\u3000\xa0\u0301\ud83d_-.!€😀"
    rng = random.Random(0)
    for _ in range(5000):
        text = "".join(rng.choices(alphabet, k=rng.randrange(30)))
        assert pretokenizer.gpt2_split(text) == pattern.findall(text), ascii(text)
    assert pretokenizer.gpt2_split(TEXT) == pattern.findall(TEXT)


def test_split_and_byte_table_of_tokenizers(tokenizers: Any) -> None:
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs = [piece for piece, _ in byte_level.pre_tokenize_str(TEXT)]
    assert [shown(piece.encode()) for piece in pretokenizer.gpt2_split(TEXT)] == theirs
    assert sorted(byte_to_unicode.values()) == sorted(byte_level.alphabet())


def test_groups_from_the_left_are_those_of_gpt4(regex: Any) -> None:
    # cl100k_base cuts \p{N}{1,3}; a space before a number is a piece of its own there.
    for number in ("7", "12345", "1234567890", "²³١Ⅷ½"):
        assert pretokenizer.split_numbers([number], 3, False) == regex.findall(r"\p{N}{1,3}", number)


# ---- training


def highest(words: Counter[tuple[bytes, ...]]) -> list[tuple[bytes, bytes]]:
    """All pairs that share the highest count."""
    counts: Counter[tuple[bytes, bytes]] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            counts[pair] += count
    top = max(counts.values())
    return [pair for pair, count in counts.items() if count == top]


def merged(word: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    result, at = [], 0
    while at < len(word):
        found = word[at : at + 2] == pair
        result.append(pair[0] + pair[1] if found else word[at])
        at += 2 if found else 1
    return tuple(result)


def byte_words(text: str) -> Counter[tuple[bytes, ...]]:
    return Counter(tuple(bytes([byte]) for byte in piece.encode()) for piece in pretokenizer.gpt2_split(text))


def peer_merges(tokenizers: Any, text: str, merges: int, special_tokens: list[str]) -> list[tuple[bytes, bytes]]:
    """The merges of Hugging Face's trainer, as bytes."""
    import json

    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=256 + merges + len(special_tokens),
        special_tokens=special_tokens,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    # Its trainer does not cut special tokens out of the text, so they are cut out here.
    chunks = re.split("|".join(map(re.escape, special_tokens)), text) if special_tokens else [text]
    tokenizer.train_from_iterator(chunks, trainer)
    back = {char: byte for byte, char in byte_to_unicode.items()}
    pairs = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(bytes(back[char] for char in token) for token in pair) for pair in pairs]  # type: ignore[misc]


def without_ties(text: str, limit: int) -> int:
    """How many merges have one best pair and no second."""
    words = byte_words(text)
    for step in range(limit):
        best = highest(words)
        if len(best) > 1:
            return step
        words = Counter({merged(word, best[0]): count for word, count in words.items()})
    return limit


def weighted_text(seed: int) -> str:
    """The lines of TEXT, each repeated a different number of times, so that ties are rare at first."""
    rng = random.Random(seed)
    lines = TEXT.splitlines(keepends=True)[:12]
    return "".join(line * rng.randint(1, 60) for line in lines)


def test_trainer_gives_the_same_merges_where_no_two_pairs_tie(tokenizers: Any) -> None:
    total = 0
    for seed in range(30):
        text = weighted_text(seed)
        merges = without_ties(text, 60)
        _, ours = bpe_trainer.train_bpe(text, 256 + merges, [], pretokenizer.gpt2_split)
        assert ours == peer_merges(tokenizers, text, merges, [])
        total += merges
    assert total > 100


def test_trainer_differs_in_ties_only(tokenizers: Any) -> None:
    """Every merge of either is a pair of highest count; of these ours is the greatest, theirs has the smallest ids."""
    _, ours = bpe_trainer.train_bpe("ab cd", 257, [], str.split)
    assert ours == [(b"c", b"d")]
    assert peer_merges(tokenizers, "ab\ncd", 1, []) == [(b"a", b"b")]

    specials = ["<|endoftext|>"]
    text = TEXT[: len(TEXT) // 2] + specials[0] + TEXT[len(TEXT) // 2 :]
    _, ours = bpe_trainer.train_bpe(text, 257 + 400, specials, pretokenizer.gpt2_split)
    for merges, is_ours in ((ours, True), (peer_merges(tokenizers, text, 400, specials), False)):
        assert len(merges) == 400
        words = byte_words(text.split(specials[0])[0]) + byte_words(text.split(specials[0])[1])
        for pair in merges:
            best = highest(words)
            assert pair in best
            assert not is_ours or pair == max(best)
            words = Counter({merged(word, pair): count for word, count in words.items()})


# ---- encoding


def as_tokenizers(
    tokenizers: Any, vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], specials: list[str]
) -> Any:
    """A tokenizer of Hugging Face with our merges."""
    table = {shown(token): i for i, token in vocab.items() if token.decode(errors="replace") not in specials}
    model = tokenizers.models.BPE(vocab=table, merges=[(shown(left), shown(right)) for left, right in merges])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([tokenizers.AddedToken(special, normalized=False) for special in specials])
    return tokenizer


def as_tiktoken(tiktoken: Any, vocab: dict[int, bytes], specials: list[str], pattern: str = GPT2) -> Any:
    """An encoding of tiktoken's with our tokens: a token's id is its rank."""
    special_ids = {token.decode(): i for i, token in vocab.items() if token.decode(errors="replace") in specials}
    ranks = {token: i for i, token in vocab.items() if token.decode(errors="replace") not in specials}
    return tiktoken.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_ids)


def random_texts(count: int) -> list[str]:
    rng = random.Random(1)
    planes = ((0, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000), (0x1F300, 0x1FAFF))
    words = TEXT.split(" ")
    texts = ["".join(chr(rng.randrange(*rng.choice(planes))) for _ in range(rng.randrange(20))) for _ in range(count)]
    return texts + [" ".join(rng.choices(words, k=rng.randrange(1, 9))) for _ in range(count)]


def is_known(text: str) -> bool:
    """Without characters that are newer than this Python's Unicode: the peers may put them into another class."""
    return all(unicodedata.category(char) != "Cn" for char in text)


def test_codec_gives_the_ids_of_tiktoken_and_tokenizers(tiktoken: Any, tokenizers: Any, trained: Any) -> None:
    vocab, merges = trained
    specials = ["<|endoftext|>"]
    ours = bpe_codec.BPETokenizer(vocab, merges, specials, pretokenizer.gpt2_split)
    theirs, face = as_tiktoken(tiktoken, vocab, specials), as_tokenizers(tokenizers, vocab, merges, specials)
    for text in [TEXT, *filter(is_known, random_texts(400))]:
        ids = ours.encode_ordinary(text)
        assert ids == theirs.encode_ordinary(text)
        assert ids == face.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == theirs.decode(ids) == text
        assert ours.encode_bytes(text.encode()) == ids
    text = "<|endoftext|>def f():<|endoftext|><|endoftext|> 日本語 <|endoftext |>"
    ids = ours.encode(text)
    assert ids == theirs.encode(text, allowed_special="all") == face.encode(text).ids
    assert ours.decode_bytes(ids) == theirs.decode_bytes(ids) == text.encode()
    assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)
    broken = [i for i, token in vocab.items() if b"\xe6" in token or b"\x97" in token]
    assert ours.decode(broken) == theirs.decode(broken, errors="replace")


def test_codec_gives_the_ids_of_tiktoken_on_long_pieces(tiktoken: Any, trained: Any) -> None:
    vocab, merges = trained
    ours = bpe_codec.BPETokenizer(vocab, merges)
    theirs = as_tiktoken(tiktoken, vocab, ["<|endoftext|>"], r"(?s:.+)")
    for text in ("a" * 5000, TEXT, "token" * 999, "日本" * 700 + "本日"):
        assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)


def test_codec_and_tokenizers_merge_pairs_where_tiktoken_merges_bytes(tiktoken: Any, tokenizers: Any) -> None:
    """tiktoken joins any two neighbours that spell a token; merges decide here and in tokenizers."""
    merges = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"bc", b"d")]
    vocab = {i: bytes([i]) for i in range(256)} | {256 + i: a + b for i, (a, b) in enumerate(merges)}
    ours = bpe_codec.BPETokenizer(vocab, merges)
    assert ours.encode("abcd") == as_tokenizers(tokenizers, vocab, merges, []).encode("abcd").ids == [97, 259]
    assert as_tiktoken(tiktoken, vocab, []).encode("abcd") == [258, 100]


def test_codec_takes_the_longest_special_token(tiktoken: Any, tokenizers: Any) -> None:
    """As tokenizers does; tiktoken takes the first in its table that fits."""
    vocab = {i: bytes([i]) for i in range(256)}
    specials = ["<a>", "<a><a>"]
    ours = bpe_codec.BPETokenizer(vocab, [], specials)
    assert ours.encode("<a><a><a>") == [257, 256]
    assert as_tokenizers(tokenizers, vocab, [], specials).encode("<a><a><a>").ids == [257, 256]
    table = vocab | {256: b"<a>", 257: b"<a><a>"}
    assert as_tiktoken(tiktoken, table, specials).encode("<a><a><a>", allowed_special="all") in (
        [256, 256, 256],
        [257, 256],
    )


def test_codec_refuses_a_lone_surrogate_where_tiktoken_replaces_it(tiktoken: Any) -> None:
    vocab = {i: bytes([i]) for i in range(256)}
    with pytest.raises(UnicodeEncodeError):
        bpe_codec.BPETokenizer(vocab, []).encode("a\ud800")
    encoding = as_tiktoken(tiktoken, vocab, [])
    assert encoding.decode(encoding.encode("a\ud800")) == "a\ufffd"


def test_stream_says_what_tokenizers_says(tokenizers: Any, trained: Any) -> None:
    vocab, merges = trained
    ours = bpe_codec.BPETokenizer(vocab, merges, ["<|endoftext|>"], pretokenizer.gpt2_split)
    face = as_tokenizers(tokenizers, vocab, merges, ["<|endoftext|>"])
    # Theirs holds back whatever ends in U+FFFD, so a text must not hold one.
    text = TEXT.replace("\ufffd", "")
    stream = bpe_codec.StreamDecoder(ours)
    peer = tokenizers.decoders.DecodeStream(skip_special_tokens=False)
    said = heard = ""
    for i in ours.encode(text):
        said += stream.push(i)
        heard += peer.step(face, i) or ""
        assert said.startswith(heard)
    assert said + stream.finish() == text == heard


# ---- WordPiece


def test_wordpiece_encodes_as_tokenizers_does(tokenizers: Any) -> None:
    rng = random.Random(2)
    for _ in range(60):
        pieces = {"".join(rng.choices("abé日#", k=rng.randint(1, 4))) for _ in range(14)}
        vocab = sorted({piece if rng.random() < 0.5 else "##" + piece for piece in pieces} | {"[UNK]"})
        model = tokenizers.models.WordPiece(
            {piece: i for i, piece in enumerate(vocab)}, unk_token="[UNK]", max_input_chars_per_word=9
        )
        for _ in range(60):
            word = "".join(rng.choices("abé日#", k=rng.randint(1, 11)))
            assert wordpiece.wordpiece_encode(word, set(vocab), max_chars=9) == [t.value for t in model.tokenize(word)]


def test_wordpiece_decodes_as_tokenizers_does(tokenizers: Any) -> None:
    decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=False)
    for pieces in (["un", "##aff", "##able", "in", "##deed"], ["a"], ["[UNK]", "日", "##本"], ["a", "##b", "##c", "d"]):
        assert wordpiece.wordpiece_decode(pieces) == decoder.decode(pieces)


def test_wordpiece_trains_by_score_where_tokenizers_trains_by_frequency(tokenizers: Any) -> None:
    """Hugging Face's WordPieceTrainer is its BPE trainer with another prefix."""
    words = {"top": 6, "tot": 3, "pot": 4, "stops": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=20, show_progress=False, special_tokens=[])
    tokenizer.train_from_iterator([" ".join([word] * count) for word, count in words.items()], trainer)
    by_id = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    assert next(piece for piece in by_id if len(piece.removeprefix("##")) > 1) == "to"
    ours = wordpiece.train_wordpiece(words, 20)
    assert next(piece for piece in ours if len(piece.removeprefix("##")) > 1) == "##ps"


# ---- unigram


def random_model(rng: random.Random) -> dict[str, float]:
    pieces = {"".join(rng.choices("abc", k=rng.randint(2, 4))) for _ in range(10)} | set("abc")
    return {piece: math.log(rng.uniform(0.01, 0.2)) for piece in sorted(pieces)}


def test_viterbi_is_that_of_tokenizers(tokenizers: Any) -> None:
    rng = random.Random(3)
    for _ in range(60):
        logp = random_model(rng)
        model = tokenizers.models.Unigram([("<unk>", -100.0), *logp.items()], unk_id=0, byte_fallback=False)
        for _ in range(20):
            text = "".join(rng.choices("abc", k=rng.randint(1, 20)))
            pieces, score = unigram_lm.viterbi(text, logp)
            assert pieces == [token.value for token in model.tokenize(text)]
            assert score == pytest.approx(sum(logp[piece] for piece in pieces))


def test_all_segmentations_are_those_of_sentencepiece(sentencepiece: Any) -> None:
    """Its own trained scores: our best segmentation is its best one, our total the sum over its N-best list."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["tends tend ten end tents sent send dents nest nets set tense sense dense"] * 30),
        model_writer=model,
        vocab_size=30,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=3,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    logp = {
        processor.id_to_piece(i): processor.get_score(i)
        for i in range(processor.get_piece_size())
        if not processor.is_control(i) and not processor.is_unknown(i)
    }
    for word in ("tends", "sent", "dense", "nested", "ten"):
        text = "\u2581" + word
        every = processor.nbest_encode_as_pieces(word, 500)
        scores = [sum(logp[piece] for piece in pieces) for pieces in every]
        pieces, score = unigram_lm.viterbi(text, logp)
        assert score == pytest.approx(max(scores), abs=1e-4)
        assert sum(logp[piece] for piece in processor.encode_as_pieces(word)) == pytest.approx(score, abs=1e-4)
        counts, total = unigram_lm.expected_counts(text, logp)
        assert total == pytest.approx(math.log(math.fsum(map(math.exp, scores))), abs=1e-4)
        for piece in counts:
            uses = math.fsum(found.count(piece) * math.exp(s - total) for found, s in zip(every, scores, strict=True))
            assert counts[piece] == pytest.approx(uses, abs=1e-4)
        assert pieces in every
