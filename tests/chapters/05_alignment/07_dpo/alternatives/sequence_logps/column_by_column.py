"""One place in time after the other, for the whole batch at once; the mask by counting labels from the right."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORE = -100


def sequence_logps(logits: Tensor, labels: Tensor, average: bool = False) -> tuple[Tensor, Tensor]:
    if logits.ndim != 3 or labels.ndim != 2 or tuple(logits.shape[:2]) != tuple(labels.shape):
        raise ValueError("shapes")
    total = logits[:, 0, 0].double() * 0.0
    total = torch.where(torch.isfinite(total), total, torch.zeros_like(total))
    count = torch.zeros(labels.shape[0], dtype=torch.long)
    for t in range(1, labels.shape[1]):
        column = logits[:, t - 1]
        column = column if column.dtype == torch.float64 else column.float()
        total = total - F.cross_entropy(column, labels[:, t], ignore_index=IGNORE, reduction="none")
        count += labels[:, t].ne(IGNORE).long()
    if average:
        total = torch.where(count > 0, total / count.clamp(min=1), total)
    return total.to(torch.float64 if logits.dtype == torch.float64 else torch.float32), count


def concatenated_forward(
    model: Callable[[Tensor, Tensor], Tensor],
    chosen: tuple[Tensor, Tensor],
    rejected: tuple[Tensor, Tensor],
    pad_id: int,
    average: bool = False,
) -> tuple[Tensor, Tensor]:
    b = chosen[0].shape[0]
    t = max(chosen[0].shape[1], rejected[0].shape[1])
    ids = torch.full((2 * b, t), pad_id)
    labels = torch.full((2 * b, t), IGNORE)
    for start, (x, y) in ((0, chosen), (b, rejected)):
        ids[start : start + b, : x.shape[1]] = x
        labels[start : start + b, : y.shape[1]] = y
    to_come = (labels != IGNORE).flip(1).cumsum(1).flip(1)
    mask = (to_come > 0).to(torch.int64)
    ids[mask == 0] = pad_id
    logps, _ = sequence_logps(model(ids, mask), labels, average=average)
    return logps[:b], logps[b:]
