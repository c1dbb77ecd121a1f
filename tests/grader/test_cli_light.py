"""What only reads the course imports neither torch nor the judge nor hypothesis."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command_line import Desk

HEAVY = ("torch", "numpy", "scipy", "triton", "hypothesis", "pytest", "msgpack", "grader.judge", "grader.testing")

PROBE = """
import sys
from grader.cli.run import run
code = run(sys.argv[1:])
print([name for name in {heavy!r} if name in sys.modules], code, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [[], ["list"], ["list", "--json"], ["tracks"], ["status"], ["show", "1.1"], ["hint", "1.1/dot"], ["--help"]],
    ids=" ".join,
)
def test_imports(desk: Desk, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), *arguments], capture_output=True, text=True, check=False
    )
    assert done.stderr == "[] 0\n"
