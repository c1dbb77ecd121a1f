"""Speed of the grader, as ratios taken in one run: `python benchmarks/speed.py [--rounds N]`.

Each figure is the median over rounds; the two sides of a ratio alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GRADE = [sys.executable, "-m", "grader.cli"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def wall(command: list[str]) -> float:
    """Seconds from start to end of a command that must succeed."""
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def ratio(command: list[str], yardstick: list[str], rounds: int) -> tuple[float, float, float]:
    """(median ratio, median seconds of the command, median seconds of the yardstick)."""
    pairs = [(wall(command), wall(yardstick)) for _ in range(rounds)]
    return (
        statistics.median(ours / theirs for ours, theirs in pairs),
        statistics.median(ours for ours, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
    )


def round_trips() -> dict[str, float]:
    """Microseconds of a call with a small tensor, against a plain call of the same function; milliseconds to start."""
    script = """
import json, statistics, time
import torch
from grader import course
from grader.course import Limits
from grader.judge.hosts import Home, Hosts
from grader.judge.session import Session
from grader.judge.submission import Submission

source = "def f(x):\\n    return x * 2\\n"
options = {"filename": "f.py", "source": source, "module": "f", "kind": "torch", "forbid": [], "output_kib": 64}
hosts = Hosts({"torch"})
home = Home(hosts, "process")
starts = []
for _ in range(20):
    began = time.perf_counter()
    submission = Submission(lambda: Session.open(home.start("torch", Limits()), options, 60), None)
    submission.f(torch.ones(3))
    starts.append(time.perf_counter() - began)
    if len(starts) < 20:
        submission.close()
x = torch.ones(3, 4)
times = []
submission.session.allow(600)
for _ in range(3000):
    began = time.perf_counter()
    submission.f(x)
    times.append(time.perf_counter() - began)
submission.close()
hosts.close()
print(json.dumps({"round_trip_us": 1e6 * statistics.median(times), "start_ms": 1e3 * statistics.median(starts)}))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(result.stdout)
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    imports = [sys.executable, "-c", "import click, rich"]
    for words in (["list"], ["status"], ["hint", "2.3/sdpa"], ["show", "2.3"]):
        times, ours, theirs = ratio([*GRADE, *words], imports, rounds)
        print(
            f"grade {' '.join(words):24} {times:5.2f} x python -c 'import click, rich'   ({ours:.3f} s, {theirs:.3f} s)"
        )
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--isolation", "none"]
    plain.append("tests/chapters/02_transformer/03_attention")
    times, ours, theirs = ratio([*GRADE, "2.3", "--solution"], plain, max(3, rounds // 2))
    print(
        f"grade 2.3 --solution, cold     {times:5.2f} x the same tests under pytest in one process"
        f"   ({ours:.2f} s, {theirs:.2f} s)"
    )
    found = round_trips()
    print(f"a call with a small tensor     {found['round_trip_us']:5.0f} us there and back")
    print(f"a worker, to its first result  {found['start_ms']:5.1f} ms")


if __name__ == "__main__":
    main()
