"""Positions on a circle (cos, sin), a rotation as w_q; position 0 is barred as a key in layer 2 by a tag."""

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
    V, N = vocab, 2 * max_len
    C, S, FIRST, ONE = 3 * V, 3 * V + 1, 3 * V + 2, 3 * V + 3
    D = 3 * V + 4
    w = 2 * np.pi / N
    ang = w * np.arange(max_len)
    embed = np.eye(V, D)
    position = np.zeros((max_len, D))
    position[:, C], position[:, S], position[0, FIRST], position[:, ONE] = np.cos(ang), np.sin(ang), 1, 1
    sharp = 60 * np.sqrt(2) / (1 - np.cos(w))
    a = np.sqrt(sharp)
    w_k = np.zeros((D, 2))
    w_k[C, 0] = w_k[S, 1] = a
    w_q = np.zeros((D, 2))  # angle t - 1
    w_q[C] = a * np.array([np.cos(w), -np.sin(w)])
    w_q[S] = a * np.array([np.sin(w), np.cos(w)])
    w_v = np.eye(D, V)
    w_o = np.zeros((V, D))
    w_o[:, V : 2 * V] = np.eye(V)
    first = Head(w_q, w_k, w_v, w_o)
    g = np.sqrt(60 * np.sqrt(V + 1))
    w_q = np.zeros((D, V + 1))
    w_q[:V, :V] = g * np.eye(V)
    w_q[ONE, V] = g
    w_k = np.zeros((D, V + 1))
    w_k[V : 2 * V, :V] = g * np.eye(V)
    w_k[FIRST, V] = -2 * g
    w_o = np.zeros((V, D))
    w_o[:, 2 * V : 3 * V] = 5 * np.eye(V)
    second = Head(w_q, w_k, w_v, w_o)
    unembed = np.zeros((D, V))
    unembed[2 * V : 3 * V] = np.eye(V)
    return Program(embed, position, (first, second), unembed)
