"""Positions as points on a circle: the step back is a rotation, and two numbers hold any position."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Head:
    w_q: np.ndarray
    w_k: np.ndarray
    w_v: np.ndarray
    w_o: np.ndarray


@dataclass(frozen=True)
class Program:
    embed: np.ndarray
    position: np.ndarray
    layers: tuple[Head, Head]
    unembed: np.ndarray


def induction_program(vocab, max_len):
    # token | previous | answer | cos | sin | one | is position 0
    cos = 3 * vocab
    one, first, width = cos + 2, cos + 3, cos + 4
    eye = np.eye(vocab)
    token, previous, answer = (slice(n * vocab, (n + 1) * vocab) for n in range(3))

    embed = np.zeros((vocab, width))
    embed[:, token] = eye
    step = np.pi / max_len
    position = np.zeros((max_len, width))
    position[:, cos] = np.cos(step * np.arange(max_len))
    position[:, cos + 1] = np.sin(step * np.arange(max_len))
    position[:, one] = 1
    position[0, first] = 1

    def moves(rows, columns, matrix, other):
        out = np.zeros((width, other))
        out[rows, columns] = matrix
        return out

    # The neighbours of the right position differ from it by 1 - cos(step) only: 30 nats need a large factor.
    sharp = 30 / (1 - np.cos(step))
    turn = np.array([[np.cos(step), -np.sin(step)], [np.sin(step), np.cos(step)]])
    circle = slice(cos, cos + 2)
    w_o = np.zeros((vocab, width))
    w_o[:, previous] = eye
    back = Head(
        moves(circle, slice(2), sharp * np.sqrt(2) * turn, 2),
        moves(circle, slice(2), np.eye(2), 2),
        moves(token, slice(vocab), eye, vocab),
        w_o,
    )

    strong = 40 * np.sqrt(vocab + 1)
    w_q = moves(token, slice(vocab), strong * eye, vocab + 1)
    w_q[one, vocab] = strong
    w_k = moves(previous, slice(vocab), eye, vocab + 1)
    w_k[first, vocab] = -3
    w_o = np.zeros((vocab, width))
    w_o[:, answer] = 5 * eye
    find = Head(w_q, w_k, moves(token, slice(vocab), eye, vocab), w_o)

    return Program(embed, position, (back, find), moves(answer, slice(vocab), eye, vocab))
