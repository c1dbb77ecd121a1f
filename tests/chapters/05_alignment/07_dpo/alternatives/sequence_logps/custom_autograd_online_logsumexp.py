"""A custom autograd.Function: online logsumexp over vocabulary chunks of one row, softmax rebuilt in backward."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

IGNORE = -100
CHUNK = 1000


class _RowLogp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, tokens: Tensor) -> Tensor:
        """rows (n, V) in any float dtype, tokens (n,): the sum of the log-probs."""
        dtype = torch.float64 if rows.dtype == torch.float64 else torch.float32
        n, vocab = rows.shape
        top = torch.full((n,), -torch.inf, dtype=dtype, device=rows.device)
        mass = torch.zeros(n, dtype=dtype, device=rows.device)
        for s in range(0, vocab, CHUNK):
            part = rows[:, s : s + CHUNK].to(dtype)
            new = torch.maximum(top, part.amax(1))
            safe = torch.where(new.isinf(), 0.0, new)
            mass = mass * torch.exp(top - safe) + torch.exp(part - safe[:, None]).sum(1)
            top = new
        lse = top + mass.log()
        ctx.save_for_backward(rows, tokens, lse)
        return (rows[torch.arange(n), tokens].to(dtype) - lse).sum()

    @staticmethod
    def backward(ctx, grad):
        rows, tokens, lse = ctx.saved_tensors
        g = -torch.exp(rows.to(lse.dtype) - lse[:, None])
        g[torch.arange(len(tokens)), tokens] += 1
        return (grad * g).to(rows.dtype), None


def sequence_logps(logits: Tensor, labels: Tensor, average: bool = False) -> tuple[Tensor, Tensor]:
    if logits.ndim != 3:
        raise ValueError("logits: (B, T, V)")
    if tuple(labels.shape) != tuple(logits.shape[:2]):
        raise ValueError("labels: (B, T)")
    out, counts = [], []
    for b in range(len(labels)):
        t = (labels[b, 1:] != IGNORE).nonzero().squeeze(1)
        total = _RowLogp.apply(logits[b][t], labels[b][t + 1])
        out.append(total / max(len(t), 1) if average else total)
        counts.append(len(t))
    return torch.stack(out), torch.tensor(counts, dtype=torch.int64, device=labels.device)


def concatenated_forward(
    model: Callable[[Tensor, Tensor], Tensor],
    chosen: tuple[Tensor, Tensor],
    rejected: tuple[Tensor, Tensor],
    pad_id: int,
    average: bool = False,
) -> tuple[Tensor, Tensor]:
    ids = torch.nn.utils.rnn.pad_sequence([*chosen[0], *rejected[0]], batch_first=True, padding_value=pad_id)
    labels = torch.nn.utils.rnn.pad_sequence([*chosen[1], *rejected[1]], batch_first=True, padding_value=IGNORE)
    mask = torch.zeros_like(ids)
    for b, row in enumerate(labels.tolist()):
        end = len(row)
        while end and row[end - 1] == IGNORE:
            end -= 1
        mask[b, :end] = 1
    logps, _ = sequence_logps(model(ids, mask), labels, average)
    n = len(chosen[0])
    return logps[:n], logps[n:]
