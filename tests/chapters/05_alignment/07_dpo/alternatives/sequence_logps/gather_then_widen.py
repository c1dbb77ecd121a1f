"""One batch-wide gather of the picked logits (small, exact in any dtype, then widened); logsumexp row by row on the widened row; masked sum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORE = -100


def sequence_logps(logits: Tensor, labels: Tensor, average: bool = False) -> tuple[Tensor, Tensor]:
    if logits.dim() != 3 or labels.dim() != 2 or logits.shape[:2] != labels.shape:
        raise ValueError(f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} do not fit")
    dtype = torch.promote_types(logits.dtype, torch.float32)
    mask = labels[:, 1:] != IGNORE
    tokens = labels[:, 1:].masked_fill(~mask, 0)
    picked = logits[:, :-1].gather(-1, tokens[..., None]).squeeze(-1).to(dtype)
    lse = torch.stack([torch.logsumexp(row[:-1].to(dtype), -1) for row in logits])
    logps = torch.where(mask, picked - lse, 0).sum(-1)
    counts = mask.sum(-1)
    return (logps / counts.clamp(min=1) if average else logps), counts


def concatenated_forward(
    model: Callable[[Tensor, Tensor], Tensor],
    chosen: tuple[Tensor, Tensor],
    rejected: tuple[Tensor, Tensor],
    pad_id: int,
    average: bool = False,
) -> tuple[Tensor, Tensor]:
    width = max(chosen[0].shape[1], rejected[0].shape[1])

    def join(a: Tensor, b: Tensor, value: int) -> Tensor:
        return torch.cat([F.pad(x, (0, width - x.shape[1]), value=value) for x in (a, b)])

    ids, labels = join(chosen[0], rejected[0], pad_id), join(chosen[1], rejected[1], IGNORE)
    mask = ((labels != IGNORE).flip(1).cumsum(1).flip(1) > 0).long()
    logps, _ = sequence_logps(model(ids, mask), labels, average)
    return logps[: len(chosen[0])], logps[len(chosen[0]) :]
