"""The vocabulary of hidden tests: one import for the author of a chapter.

Names are loaded when they are first used, so that a test of a numpy exercise never imports torch.

>>> from grader.testing import close, given, integers, largest_temporary, tensors
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "behaviours": ("behaviour",),
    "calls": ("fresh", "in_place", "raises", "warnings_are_errors"),
    "closeness": ("close",),
    "costs": (
        "counting",
        "dispatched",
        "executed_lines",
        "flops",
        "growth",
        "largest_temporary",
        "matrix_products",
        "peak_memory",
        "saved_for_backward",
    ),
    "exact": ("equal",),
    "failure": ("CheckFailed", "needs", "points", "require"),
    "kernels": ("compiled_for_sm_90", "interpreted", "launches_only"),
    "mistakes": ("edit",),
    "property": ("given",),
    "statistics": ("frequencies_match", "mean_within"),
    "strategies": (
        "arrays",
        "binary",
        "booleans",
        "floats",
        "integers",
        "just",
        "lists",
        "one_of",
        "permutations",
        "probability_rows",
        "ragged",
        "sampled_from",
        "shared",
        "tensors",
        "text",
        "token_ids",
        "tuples",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from grader.testing.behaviours import behaviour
    from grader.testing.calls import fresh, in_place, raises, warnings_are_errors
    from grader.testing.closeness import close
    from grader.testing.costs import (
        counting,
        dispatched,
        executed_lines,
        flops,
        growth,
        largest_temporary,
        matrix_products,
        peak_memory,
        saved_for_backward,
    )
    from grader.testing.exact import equal
    from grader.testing.failure import CheckFailed, needs, points, require
    from grader.testing.kernels import compiled_for_sm_90, interpreted, launches_only
    from grader.testing.mistakes import edit
    from grader.testing.property import given
    from grader.testing.statistics import frequencies_match, mean_within
    from grader.testing.strategies import (
        arrays,
        binary,
        booleans,
        floats,
        integers,
        just,
        lists,
        one_of,
        permutations,
        probability_rows,
        ragged,
        sampled_from,
        shared,
        tensors,
        text,
        token_ids,
        tuples,
    )

__all__ = [
    "CheckFailed",
    "arrays",
    "behaviour",
    "binary",
    "booleans",
    "close",
    "compiled_for_sm_90",
    "counting",
    "dispatched",
    "edit",
    "equal",
    "executed_lines",
    "floats",
    "flops",
    "frequencies_match",
    "fresh",
    "given",
    "growth",
    "in_place",
    "integers",
    "interpreted",
    "just",
    "largest_temporary",
    "launches_only",
    "lists",
    "matrix_products",
    "mean_within",
    "needs",
    "one_of",
    "peak_memory",
    "permutations",
    "points",
    "probability_rows",
    "ragged",
    "raises",
    "require",
    "sampled_from",
    "saved_for_backward",
    "shared",
    "tensors",
    "text",
    "token_ids",
    "tuples",
    "warnings_are_errors",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"grader.testing has no {name!r}; see CONTRIBUTING.md for the vocabulary")
    return getattr(importlib.import_module(f"grader.testing.{_HOME_OF[name]}"), name)
