"""A course of two parts and five chapters for tests: 1.1, 1.3 and 2.1 are built, 1.2 and 2.2 are not."""

from __future__ import annotations

from pathlib import Path

TRACKS = """\
parts:
  - number: 1
    title: Foundations
    slug: foundations
    chapters:
      - {id: "1.1", slug: vectors, title: "Vectors", prereqs: []}
      - {id: "1.2", slug: matrices, title: "Matrices", prereqs: ["1.1"]}
      - {id: "1.3", slug: memory, title: "Memory: Caches", prereqs: ["1.1", "2.1"]}
  - number: 2
    title: Models
    slug: models
    chapters:
      - {id: "2.1", slug: attention, title: "Attention", prereqs: ["1.1"]}
      - {id: "2.2", slug: optimizers, title: "Optimizers", prereqs: ["2.1"]}
tracks:
  - {key: short, title: The Short Way, about: "Quick.", chapters: ["1.1", "1.2", "2.1"]}
  - {key: planned, title: Not Yet, about: "Later.", chapters: ["1.2", "2.2"]}
"""

CHAPTER = """\
id: "{id}"
title: "{title}"
level: core
outcome: >
  Do it,
  and know why.
prereqs: [{prereqs}]
sources: ["arXiv:1706.03762"]
exercises:
"""

EXERCISE = """\
  - slug: {slug}
    title: "About {slug}"
    kind: numpy
    minutes: 20
    points: 10
    forbid: ["numpy.dot"]
    limits: {{check_seconds: 20}}
    hints: ["a nudge", "the approach", "nearly the code"]
    mistakes:
      off_by_one: "Starts at one."
"""

SOLUTION = '''\
"""One line."""

import numpy as np


def {slug}(x: np.ndarray) -> float:
    """x: (n,) -> a number."""
    ### BEGIN SOLUTION
    return float(x.sum())
    ### END SOLUTION
'''

BUILT = {
    "01_foundations/01_vectors": ("1.1", "Vectors", "", ["dot", "norm"]),
    "01_foundations/03_memory": ("1.3", "Memory: Caches", '"1.1", "2.1"', ["roofline"]),
    "02_models/01_attention": ("2.1", "Attention", '"1.1"', ["roofline", "online_softmax"]),
}


def stub(exercise_id: str) -> str:
    """What the stub of one of its exercises must be."""
    slug = exercise_id.partition("/")[2]
    return f'''\
"""One line."""

# Not allowed here, in any form: numpy.dot.

import numpy as np


def {slug}(x: np.ndarray) -> float:
    """x: (n,) -> a number."""
    raise NotImplementedError("{exercise_id}: write {slug}")
'''


def write_course(root: Path) -> Path:
    """Write the course below `root`, and return it."""
    _write(root / "tracks.yaml", TRACKS)
    for folder, (chapter, title, prereqs, slugs) in BUILT.items():
        page = CHAPTER.format(id=chapter, title=title, prereqs=prereqs)
        _write(
            root / "exercises" / folder / "chapter.yaml", page + "".join(EXERCISE.format(slug=slug) for slug in slugs)
        )
        _write(root / "exercises" / folder / "README.md", f"# {title}\n")
        for slug in slugs:
            _write(root / "exercises" / folder / f"{slug}.py", stub(f"{chapter}/{slug}"))
            _write(root / "solutions" / folder / f"{slug}.py", SOLUTION.format(slug=slug))
            _write(root / "tests" / "chapters" / folder / f"test_{slug}.py", "")
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
