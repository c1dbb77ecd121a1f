"""The prompt first, the draft's gap mended at the start of a round, acceptance by random() < ratio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class CachedModel:
    pass


@dataclass(frozen=True)
class Generation:
    tokens: list[int]
    accepted: list[int]
    drafted: list[int]


def generate(
    target: CachedModel,
    draft: CachedModel,
    prompt: list[int],
    max_new: int,
    k: int,
    rng: np.random.Generator,
    eos_id: int | None = None,
    greedy: bool = False,
) -> Generation:
    out, accepted_log, drafted_log = [], [], []
    vocab = target.vocab_size

    def shaped(row):
        return np.eye(vocab)[int(np.argmax(row))] if greedy else row

    def draw(weights):
        return int(rng.choice(vocab, p=weights / np.sum(weights)))

    if max_new > 0 and len(prompt) > 1:
        target.forward(prompt[:-1])
        if k > 0 and max_new > 1:
            draft.forward(prompt[:-1])
    pending, settled = prompt[-1], len(prompt)
    behind = []  # settled tokens before the pending one that the draft has not seen
    while len(out) < max_new:
        count = min(k, max_new - len(out) - 1)
        guesses, q = [], []
        for step in range(count):
            rows = draft.forward([*behind, pending] if step == 0 else [guesses[-1]])
            behind = []
            q.append(shaped(rows[-1]))
            guesses.append(draw(q[-1]))
        p = [shaped(row) for row in target.forward([pending, *guesses])]
        good = 0
        while good < count and rng.random() < p[good][guesses[good]] / q[good][guesses[good]]:
            good += 1
        last = draw(p[count]) if good == count else draw(np.clip(p[good] - q[good], 0, None))
        accepted_log.append(good)
        drafted_log.append(count)
        new = [*guesses[:good], last]
        if eos_id in new:
            new = new[: new.index(eos_id) + 1]
        out += new
        settled += len(new)
        target.truncate(settled - 1)
        if count:
            if draft.length > settled - 1:
                draft.truncate(settled - 1)
            elif draft.length < settled - 1:
                behind = [guesses[-1]]
        elif k > 0:
            behind = [*behind, pending]
        pending = new[-1]
        if pending == eos_id:
            break
    return Generation(out, accepted_log, drafted_log)
