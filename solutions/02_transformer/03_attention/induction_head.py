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
    ### BEGIN SOLUTION
    # The residual stream is the program's memory: four slices, and every matrix moves one slice to another.
    token = slice(0, vocab)
    place = slice(vocab, vocab + max_len)
    previous = slice(vocab + max_len, 2 * vocab + max_len)
    answer = slice(2 * vocab + max_len, 3 * vocab + max_len)
    width = 3 * vocab + max_len
    margin = 20.0  # in nats: 64 wrong keys together get a weight of 64 * exp(-20), about 1e-7

    def sharp(dh: int) -> float:
        # Scores are divided by sqrt(dh); rounded up, so that all weights are whole numbers.
        return margin * np.ceil(np.sqrt(dh))

    embed = np.zeros((vocab, width))
    embed[:, token] = np.eye(vocab)
    position = np.zeros((max_len, width))
    position[:, place] = np.eye(max_len)

    # Layer 1, "who stood before me": position t asks for position t - 1 and stores its token in `previous`.
    dh = max_len
    w_q, w_k = np.zeros((width, dh)), np.zeros((width, dh))
    w_q[place] = sharp(dh) * np.eye(max_len, k=-1)  # row t, column t - 1
    w_k[place] = np.eye(max_len)
    w_v, w_o = np.zeros((width, vocab)), np.zeros((vocab, width))
    w_v[token] = np.eye(vocab)
    w_o[:, previous] = np.eye(vocab)
    look_back = Head(w_q, w_k, w_v, w_o)

    # Layer 2, "who stood behind my token": the current token asks for the position whose previous token it is.
    # Position 0 could only look at itself, so it claims to follow its own token: the last dimension rules it out.
    dh = vocab + 1
    w_q, w_k = np.zeros((width, dh)), np.zeros((width, dh))
    w_q[token, :vocab] = sharp(dh) * np.eye(vocab)
    w_q[token, vocab] = sharp(dh)
    w_k[previous, :vocab] = np.eye(vocab)
    w_k[place.start, vocab] = -2.0
    w_v, w_o = np.zeros((width, vocab)), np.zeros((vocab, width))
    w_v[token] = np.eye(vocab)
    w_o[:, answer] = 10.0 * np.eye(vocab)
    copy_next = Head(w_q, w_k, w_v, w_o)

    unembed = np.zeros((width, vocab))
    unembed[answer] = np.eye(vocab)
    return Program(embed, position, (look_back, copy_next), unembed)
    ### END SOLUTION
