"""Chapter 4.6 against a Llama attention layer of transformers with its DynamicCache, and against float64 attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference import solution
from torch import Tensor

CHAPTER = "04_kernels/06_paged_kv"
NO_TRANSFORMERS = "transformers is an optional peer: pip install -e '.[peers]'"
H, HK, D = 8, 2, 16
BLOCK_SIZE = 4


paged = solution(CHAPTER, "paged_attention")


class Pages:
    """The cache of one layer for several sequences, whose blocks are dealt out in turn from a shuffled pile."""

    def __init__(self, sequences: int, blocks: int = 40, dtype: torch.dtype = torch.float32) -> None:
        self.k_cache, self.v_cache = torch.full((2, blocks, BLOCK_SIZE, HK, D), torch.nan, dtype=dtype)
        self.pile = torch.randperm(blocks).tolist()
        self.tables: list[list[int]] = [[] for _ in range(sequences)]
        self.contexts = [0] * sequences

    def step(self, q: Tensor, k: Tensor, v: Tensor, counts: list[int], **options: Any) -> Tensor:
        """Writes the new tokens of all sequences, then attends with their queries; a padded slot at the end."""
        slots = []
        for b, count in enumerate(counts):
            for position in range(self.contexts[b], self.contexts[b] + count):
                if position % BLOCK_SIZE == 0:
                    self.tables[b].append(self.pile.pop())
                slots.append(self.tables[b][position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
            self.contexts[b] += count
        k, v = (torch.cat([x, torch.full_like(x[:1], torch.nan)]) for x in (k, v))
        paged.write_kv(k, v, self.k_cache, self.v_cache, torch.tensor([*slots, -1]))
        width = max(map(len, self.tables)) + 1
        tables = torch.tensor([table + [-1] * (width - len(table)) for table in self.tables], dtype=torch.int32)
        contexts = torch.tensor(self.contexts, dtype=torch.int32)
        starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        result: Tensor = paged.paged_attention(q, self.k_cache, self.v_cache, tables, contexts, starts, **options)
        return result


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """float64: q (n, H, D) are the last positions of k and v (context, HK, D)."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(H // HK, dim=0) for x in (k, v))
    n, context = q.shape[1], k.shape[1]
    hidden = torch.arange(context) > torch.arange(context - n, context)[:, None]
    weights = (q @ k.transpose(1, 2) / D**0.5).masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ v).transpose(0, 1)


CHUNKS = [[3, 5], [5, 0], [1, 4], [1, 1], [1, 1], [4, 1]]
"""New tokens of two sequences in each step: prefill in chunks, steps left out, decodes, blocks filled exactly."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_steps_equal_float64_attention(dtype: torch.dtype) -> None:
    """Every step of a mixed batch gives what float64 attention over all tokens so far gives."""
    torch.manual_seed(0)
    pages = Pages(2, dtype=dtype)
    k, v = (torch.randn(2, 20, HK, D).to(dtype) for _ in range(2))
    for counts in CHUNKS:
        new = [slice(done, done + count) for done, count in zip(pages.contexts, counts, strict=True)]
        q = torch.randn(sum(counts), H, D).to(dtype)
        out = pages.step(q, *(torch.cat([x[b, new[b]] for b in range(2)]) for x in (k, v)), counts)
        right = [
            dense(part, k[b, : new[b].stop], v[b, : new[b].stop]) for b, part in enumerate(q.split(counts)) if len(part)
        ]
        assert out.dtype == dtype
        tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
        torch.testing.assert_close(out.double(), torch.cat(right), rtol=tolerance, atol=tolerance)


def llama_attention(implementation: str) -> tuple[Any, Callable[[Tensor], tuple[Tensor, Tensor]], Any]:
    """A Llama attention layer with grouped queries, its rotary embedding by position, and transformers itself."""
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    llama = pytest.importorskip("transformers.models.llama.modeling_llama", reason=NO_TRANSFORMERS)
    config = transformers.LlamaConfig(
        hidden_size=H * D,
        num_attention_heads=H,
        num_key_value_heads=HK,
        num_hidden_layers=1,
        max_position_embeddings=64,
        attn_implementation=implementation,
    )
    layer = llama.LlamaAttention(config, layer_idx=0).eval()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    rotary = llama.LlamaRotaryEmbedding(config)
    return layer, lambda positions: rotary(torch.zeros(1, 1), positions[None]), transformers


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@torch.no_grad()
def test_steps_equal_transformers(implementation: str) -> None:
    """The same layer, over pages and over a DynamicCache a sequence: chunks of a prompt, then decodes.

    transformers keeps keys as (batch, heads, tokens, D), rotated before they are stored; our caches have the tokens
    first. Its eager attention knows no causality of its own: a chunk needs the mask that is aligned bottom right.
    """
    torch.manual_seed(1)
    layer, rotary, transformers = llama_attention(implementation)
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    pages = Pages(2)
    caches = [transformers.DynamicCache() for _ in range(2)]
    for counts in CHUNKS:
        theirs, projected = [], []
        for b, count in enumerate(counts):
            if not count:
                continue
            x = torch.randn(1, count, H * D)
            start = pages.contexts[b]
            positions = torch.arange(start, start + count)
            mask = torch.zeros(count, start + count).masked_fill(
                torch.arange(start + count) > positions[:, None], -torch.inf
            )
            cos_sin = rotary(positions)
            theirs.append(layer(x, cos_sin, mask[None, None], caches[b])[0][0])
            q, k, v = (
                projection(x).view(1, count, -1, D).transpose(1, 2)
                for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
            )
            q, k = apply_rotary_pos_emb(q, k, *cos_sin)
            projected.append([y[0].transpose(0, 1) for y in (q, k, v)])
        q, k, v = (torch.cat(parts) for parts in zip(*projected, strict=True))
        ours = layer.o_proj(pages.step(q, k, v, counts).flatten(1))
        torch.testing.assert_close(ours, torch.cat(theirs), rtol=1e-4, atol=1e-4)

    for b, cache in enumerate(caches):
        length = pages.contexts[b]
        assert cache.get_seq_length() == length
        kept = pages.k_cache[pages.tables[b]].flatten(0, 1)[:length]
        torch.testing.assert_close(kept, cache.layers[0].keys[0].transpose(0, 1), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_difference_in_the_mask_of_sdpa() -> None:
    """torch's is_causal aligns top left: for a chunk over a cache that is not our rule, and not what a model needs."""
    torch.manual_seed(2)
    k, v = torch.randn(2, 7, HK, D)
    q = torch.randn(3, H, D)
    pages = Pages(1)
    pages.step(torch.randn(4, H, D), k[:4], v[:4], [4])
    ours = pages.step(q, k[4:], v[4:], [3])
    torch.testing.assert_close(ours.double(), dense(q, k, v), rtol=2e-6, atol=2e-6)
    keys, values = (x.repeat_interleave(H // HK, dim=1).transpose(0, 1) for x in (k, v))
    top_left = torch.nn.functional.scaled_dot_product_attention(q.transpose(0, 1), keys, values, is_causal=True)
    assert (top_left.transpose(0, 1) - ours).abs().max() > 0.1
    # Its first query sees one key only, the oldest: weight 1, so its value comes out as it is.
    torch.testing.assert_close(top_left[:, 0], values[:, 0], rtol=1e-5, atol=1e-5)


def test_fp8_pages_equal_float64_attention_on_the_stored_numbers() -> None:
    """quantize_kv, write_kv and paged_attention together: float64 attention on stored * scale."""
    torch.manual_seed(3)
    k, v = torch.randn(2, 9, HK, D) * torch.tensor([0.3, 5.0])[:, None]
    (k8, k_scale), (v8, v_scale) = paged.quantize_kv(k), paged.quantize_kv(v)
    pages = Pages(1, dtype=torch.float8_e4m3fn)
    q = torch.randn(9, H, D)
    k, v = k8.float() * k_scale[:, None], v8.float() * v_scale[:, None]
    pad = torch.zeros(1, HK, D).to(torch.float8_e4m3fn)
    slots = torch.tensor([*range(9), -1])
    paged.write_kv(torch.cat([k8, pad]), torch.cat([v8, pad]), pages.k_cache, pages.v_cache, slots)
    ours = paged.paged_attention(
        q,
        pages.k_cache,
        pages.v_cache,
        torch.tensor([[0, 1, 2, -1]], dtype=torch.int32),
        torch.tensor([9], dtype=torch.int32),
        torch.tensor([0, 9], dtype=torch.int32),
        k_scale=k_scale,
        v_scale=v_scale,
    )
    torch.testing.assert_close(ours.double(), dense(q, k, v), rtol=1e-5, atol=1e-5)
