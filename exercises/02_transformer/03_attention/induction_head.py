"""An induction head, programmed by hand: two layers of attention that continue what they have seen before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Head:
    """One attention layer with one head. The residual stream has D numbers per position."""

    w_q: np.ndarray  # (D, dh)
    w_k: np.ndarray  # (D, dh)
    w_v: np.ndarray  # (D, dv)
    w_o: np.ndarray  # (dv, D)


@dataclass(frozen=True)
class Program:
    """All weights of a two-layer, attention-only transformer."""

    embed: np.ndarray  # (vocab, D)
    position: np.ndarray  # (max_len, D)
    layers: tuple[Head, Head]
    unembed: np.ndarray  # (D, vocab)


def induction_program(vocab: int, max_len: int) -> Program:
    """Weights, chosen and not trained, with which the transformer continues repeated sequences (arXiv:2209.11895).

    vocab >= 2, max_len >= 2. The program is run in float64, on a sequence `tokens` of L <= max_len ids in [0, vocab):

        x = embed[tokens] + position[:L]                                       (L, D)
        for each of the two heads:
            A = softmax((x w_q) (x w_k)^T / sqrt(dh)), causal: row t sees the columns 0 ... t
            x = x + (A x w_v) w_o
        logits = x unembed                                                     (L, vocab)

    What must hold, for every sequence: at each position t whose token occurred exactly once before, at p < t, the logit
    of tokens[p + 1] is larger than every other logit of row t by at least 1.0. p may be 0, and p may be t - 1 (then the
    answer is the current token itself). Other positions may do as they like.

    D, dh and dv are yours and may differ between the two heads (D may not); each is at least 1 and at most
    4 * (vocab + max_len). All entries are real, finite and at most 1e6 in size. `layers` holds exactly two heads.
    """
    raise NotImplementedError("2.3/induction_head: write induction_program")
