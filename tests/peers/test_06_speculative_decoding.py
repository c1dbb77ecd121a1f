"""Chapter 7.6 against exact enumeration and transformers: acceptance, prompt lookup, trees, assisted decoding."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from reference import solution

CHAPTER = "07_inference/06_speculative_decoding"
NO_TRANSFORMERS = "transformers is an optional peer: pip install -e '.[peers]'"


speculative_sampling = solution(CHAPTER, "speculative_sampling")
token_tree = solution(CHAPTER, "token_tree")
ngram_drafts = solution(CHAPTER, "ngram_drafts")
speculative_loop = solution(CHAPTER, "speculative_loop")


# -- exact enumeration of the output distribution -------------------------------------------------------------------


class QuarterModel:
    """Rows are permutations of one row of quarters, chosen by the whole cache: all thresholds are multiples of 1/4."""

    vocab_size = 3

    def __init__(self, row: tuple[int, int, int], salt: int) -> None:
        self.rows = list(itertools.permutations(row))
        self.salt = salt
        self.cache: list[int] = []

    @property
    def length(self) -> int:
        return len(self.cache)

    def row(self, text: list[int]) -> np.ndarray:
        state = self.salt
        for token in text:
            state = (state * 37 + token * 11 + 5) % 997
        return np.array(self.rows[state % len(self.rows)]) / 4

    def forward(self, tokens: list[int]) -> np.ndarray:
        assert tokens
        rows = []
        for token in tokens:
            self.cache.append(token)
            rows.append(self.row(self.cache))
        return np.stack(rows)

    def truncate(self, n: int) -> None:
        assert 0 <= n <= len(self.cache)
        del self.cache[n:]


class Script:
    """Stands for a random generator: gives the uniforms of a script, and the first of its grid where that ends."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.used = 0

    def random(self) -> float:
        if self.used == len(self.choices):
            self.choices.append(0)
        self.used += 1
        return (self.choices[self.used - 1] + 0.5) / 4


@pytest.mark.parametrize(
    ("k", "draft_row", "draft_salt"),
    [(0, (0, 2, 2), 2), (1, (0, 2, 2), 2), (1, (1, 1, 2), 4), (1, (2, 1, 1), 1), (2, (0, 2, 2), 8)],
)
def test_output_distribution_by_enumeration(k: int, draft_row: tuple[int, int, int], draft_salt: int) -> None:
    """All paths of four-sided dice through the loop, three tokens: each text gets the target's probability."""
    prompt, max_new = [2, 0], 3
    found: Counter[tuple[int, ...]] = Counter()
    choices: list[int] = []
    while True:
        target, draft = QuarterModel((2, 1, 1), 1), QuarterModel(draft_row, draft_salt)
        dice = Script(choices)
        tokens = speculative_loop.generate(target, draft, prompt, max_new, k, dice).tokens
        found[tuple(tokens)] += 4 ** (12 - dice.used)
        del choices[dice.used :]
        while choices and choices[-1] == 3:
            choices.pop()
        if not choices:
            break
        choices[-1] += 1
    model = QuarterModel((2, 1, 1), 1)
    for text in itertools.product(range(3), repeat=max_new):
        exact, context = 1.0, list(prompt)
        for token in text:
            exact *= model.row(context)[token]
            context.append(token)
        assert found[text] / 4**12 == exact, text  # powers of two: no rounding at all


# -- transformers ---------------------------------------------------------------------------------------------------


def transformers_verify(
    monkeypatch: pytest.MonkeyPatch,
    p: np.ndarray,
    q: np.ndarray,
    draft: list[int],
    u_accept: list[float],
    u_next: float,
) -> tuple[int, int]:
    """transformers' _speculative_sampling with our uniforms."""
    utils = pytest.importorskip("transformers.generation.utils", reason=NO_TRANSFORMERS)

    def multinomial(weights: torch.Tensor, num_samples: int) -> torch.Tensor:
        assert num_samples == 1
        return torch.tensor([[speculative_sampling.inverse_cdf(weights[0].numpy(), u_next)]])

    with monkeypatch.context() as patched, np.errstate(divide="ignore"):
        patched.setattr(
            torch, "rand_like", lambda ratio: torch.tensor(u_accept, dtype=ratio.dtype).reshape(ratio.shape)
        )
        patched.setattr(torch, "multinomial", multinomial)
        tokens, matches = utils._speculative_sampling(
            torch.tensor([draft]), torch.from_numpy(np.log(q))[None], len(draft), torch.from_numpy(np.log(p))[None]
        )
    assert tokens[0, :-1].tolist() == draft[: int(matches)]
    return int(matches), int(tokens[0, -1])


def test_acceptance_equals_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 random rounds, the same uniforms: as many drafts accepted, the same next token."""
    rng = np.random.default_rng(0)
    seen = Counter()
    for _ in range(200):
        k, v = int(rng.integers(1, 6)), int(rng.integers(2, 12))
        p, q = rng.dirichlet(np.ones(v), k + 1), rng.dirichlet(np.ones(v), k)
        if rng.random() < 0.5:
            q = 0.8 * p[:k] + 0.2 * q
        draft = [int(rng.choice(v, p=row)) for row in q]
        uniforms, u = rng.random(k).tolist(), float(rng.random())
        ours = speculative_sampling.verify(p, q, draft, uniforms, u)
        assert ours == transformers_verify(monkeypatch, p, q, draft, uniforms, u)
        seen[ours[0] == k] += 1
    assert min(seen.values()) > 40  # both ends of a round were met


def test_a_difference_at_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uniform that hits p / q exactly: transformers accepts, we reject. u = 0 lets a token of probability 0 pass."""
    p, q = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[0.25, 0.25, 0.5]])
    assert speculative_sampling.verify(p, q, [2], [0.0], 0.6) == (0, 1)
    assert transformers_verify(monkeypatch, p, q, [2], [0.0], 0.6) == (1, 2)
    assert transformers_verify(monkeypatch, p, q, [2], [1e-9], 0.6) == (0, 1)


def test_prompt_lookup_equals_transformers() -> None:
    """Random texts over few letters: the candidates of PromptLookupCandidateGenerator."""
    candidates = pytest.importorskip("transformers.generation.candidate_generator", reason=NO_TRANSFORMERS)
    dice = random.Random(1)
    for _ in range(300):
        text = [dice.randrange(dice.choice((2, 3, 5))) for _ in range(dice.randrange(2, 40))]
        max_ngram, k = dice.randrange(1, 6), dice.randrange(1, 8)
        generator = candidates.PromptLookupCandidateGenerator(
            num_output_tokens=k, max_matching_ngram_size=max_ngram, max_length=10_000
        )
        ids, _ = generator.get_candidates(torch.tensor([text]))
        assert ngram_drafts.prompt_lookup(text, max_ngram, 1, k) == ids[0, len(text) :].tolist()


def tiny_llama(seed: int, vocab: int = 13) -> Any:
    """A Llama of 2 layers and 32 features with random weights, in float64 so that no argmax hangs on rounding."""
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(config).double().eval()


class CachedLlama:
    """A transformers model as the chapter's CachedModel."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        self.model = model
        self.vocab_size = model.config.vocab_size
        self.cache = DynamicCache()

    @property
    def length(self) -> int:
        return int(self.cache.get_seq_length())

    def forward(self, tokens: list[int]) -> np.ndarray:
        with torch.no_grad():
            out = self.model(torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)
        return out.logits[0].softmax(-1).numpy()

    def truncate(self, n: int) -> None:
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[..., :n, :], layer.values[..., :n, :]


def mixed(model: Any, noise: float) -> Any:
    """The model with noise on its output layer: a draft that is often right."""
    import copy

    draft = copy.deepcopy(model)
    torch.manual_seed(3)
    with torch.no_grad():
        draft.lm_head.weight += noise * torch.randn_like(draft.lm_head.weight)
    return draft


def test_loop_equals_transformers_greedy_and_assisted() -> None:
    """Greedy decoding of a tiny random Llama: our loop, transformers' generate, and its assisted generation agree."""
    model = tiny_llama(0)
    draft = mixed(model, 0.2)
    prompt = [3, 1, 4, 1, 5]
    with torch.no_grad():
        plain = model.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False)[0].tolist()
        assisted = model.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False, assistant_model=draft)[
            0
        ].tolist()
    assert assisted == plain
    for k in (0, 1, 4):
        rng = np.random.default_rng(0)
        result = speculative_loop.generate(CachedLlama(model), CachedLlama(draft), prompt, 30, k, rng, greedy=True)
        assert prompt + result.tokens == plain
        if k:
            assert 0 < sum(result.accepted) < sum(result.drafted)  # both outcomes were met


def test_tree_attention_equals_paths_in_transformers() -> None:
    """One pass of a tiny Llama over a tree (our mask, our positions) gives at each node the logits of its path alone;
    with the accepted rows moved together the cache goes on as if the path had been decoded."""
    from_paths = token_tree.tree_from_paths([(0,), (0, 0), (1,), (0, 1), (0, 0, 0), (1, 0)])
    model = tiny_llama(1)
    prefix, tokens = [7, 2, 9], [4, 5, 7, 3, 5, 2, 8]
    n, start = len(tokens), len(prefix)
    cached = CachedLlama(model)
    cached.forward(prefix)
    visible = token_tree.tree_mask(from_paths, start)
    bias = torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, torch.finfo(torch.float64).min)
    positions = torch.tensor([[start + depth for depth in token_tree.depths(from_paths)]])
    with torch.no_grad():
        logits = model(
            torch.tensor([tokens]),
            attention_mask=bias[None, None],
            position_ids=positions,
            past_key_values=cached.cache,
            use_cache=True,
        ).logits[0]

    def path(node: int) -> list[int]:
        return [] if node < 0 else [*path(from_paths[node]), node]

    for node in range(n):
        with torch.no_grad():
            alone = model(torch.tensor([prefix + [tokens[i] for i in path(node)]])).logits[0, -1]
        torch.testing.assert_close(logits[node], alone, rtol=1e-9, atol=1e-9)

    accepted = [1, 3, 6]
    for layer in cached.cache.layers:
        layer.keys = token_tree.compact_kv(layer.keys, start, accepted)
        layer.values = token_tree.compact_kv(layer.values, start, accepted)
    text = prefix + [tokens[i] for i in (0, *accepted)]
    assert cached.length == len(text)
    with torch.no_grad():
        expected = model(torch.tensor([[*text, 6]])).logits[0, -1].softmax(-1).numpy()
    np.testing.assert_allclose(cached.forward([6])[-1], expected, rtol=1e-9, atol=1e-12)
