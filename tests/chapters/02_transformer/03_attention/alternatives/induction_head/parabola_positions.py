"""Positions are (1, t, t^2, t==0); the previous-token score is -(s-(t-1))^2; the answer is written onto the token."""

from __future__ import annotations

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


def induction_program(vocab: int, max_len: int) -> Program:
    V, D = vocab, 2 * vocab + 4
    ONE, T, T2, FIRST = range(2 * V, D)
    t = np.arange(max_len)
    embed = np.zeros((V, D))
    embed[np.arange(V), np.arange(V)] = 1
    position = np.zeros((max_len, D))
    position[:, ONE], position[:, T], position[:, FIRST] = 1, t, t == 0
    position[:, T2] = t * (t / max_len)  # t^2 / max_len keeps the entries small

    # -c (s - t + 1)^2 = c (2 s t - 2 s - s^2) + const(t)
    c = 40 * np.sqrt(2)
    q = np.zeros((D, 2))
    k = np.zeros((D, 2))
    q[T, 0], q[ONE, 0], k[T, 0] = 2 * c, -2 * c, 1
    q[ONE, 1], k[T2, 1] = -c, max_len
    v = np.zeros((D, V))
    v[:V] = np.eye(V)
    o = np.zeros((V, D))
    o[:, V : 2 * V] = np.eye(V)
    prev = Head(q, k, v, o)

    s = 60 * np.sqrt(V + 1)
    q = np.zeros((D, V + 1))
    k = np.zeros((D, V + 1))
    q[:V, :V], k[V : 2 * V, :V] = s * np.eye(V), np.eye(V)
    q[ONE, V], k[FIRST, V] = s, -3
    copy = Head(q, k, v, np.hstack([8 * np.eye(V), np.zeros((V, D - V))]))
    unembed = np.zeros((D, V))
    unembed[:V] = np.eye(V)
    return Program(embed, position, (prev, copy), unembed)
