"""Limits of a worker: what is refused comes as an ordinary exception, and threads go on working."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from grader.worker import limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are full on Linux only")

filtered = pytest.mark.skipif(not limits._can_filter(), reason="no seccomp filter here")


def limited(code: str, *, processes: int = 0, memory_mib: int = 2048) -> str:
    """Output of `code` in a process of its own, under limits; it must end by itself with status 0."""
    prelude = (
        "from types import SimpleNamespace\nfrom grader.worker import limits\n"
        f"def apply(): limits.apply(SimpleNamespace(memory_mib={memory_mib}, processes={processes}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@filtered
def test_no_process_can_be_started():
    output = limited(
        """
        import multiprocessing, os, subprocess, sys
        apply()
        def start(method):
            process = multiprocessing.get_context(method).Process(target=print)
            process.start()
        for attempt in (
            os.fork,
            lambda: subprocess.run([sys.executable, "-c", ""]),
            lambda: subprocess.run("true", shell=True, close_fds=False),
            lambda: os.posix_spawn("/bin/true", ["true"], {}),
            lambda: start("fork"),
            lambda: start("spawn"),
        ):
            try:
                attempt()
                print("started")
            except OSError as error:
                print(type(error).__name__)
        print("system", "refused" if os.system("true") else "started")
        """
    )
    assert "started" not in output
    assert output.split() == ["BlockingIOError"] * 6 + ["system", "refused"]


@filtered
def test_a_fork_bomb_stops_at_once_and_leaves_nothing():
    assert limited(
        """
        import os
        apply()
        refused = 0
        for _ in range(1000):
            try:
                os.fork()
            except OSError:
                refused += 1
        print(refused)
        """
    ).split() == ["1000"]


def test_threads_work_in_python_numpy_and_torch():
    output = limited(
        """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import numpy, torch
        apply()
        seen = []
        threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(abs, range(10))) == 45
        a = numpy.ones((400, 400))
        assert (a @ a)[0, 0] == 400
        torch.set_num_threads(2)
        x = torch.ones(600, 600, requires_grad=True)
        (x @ x).sum().backward()
        print(len(seen), x.grad[0, 0].item())
        """
    )
    assert output.split() == ["8", "1200.0"]


def test_a_hundred_gigabytes_are_refused_as_an_exception():
    output = limited(
        """
        import numpy, torch
        apply()
        for attempt in (
            lambda: bytearray(100 << 30),
            lambda: numpy.ones(100 << 27),
            lambda: torch.ones(100 << 28),
            lambda: [0] * (100 << 27),
        ):
            try:
                attempt()
            except (MemoryError, RuntimeError) as error:
                print(type(error).__name__)
        print(len(bytearray(64 << 20)))
        """
    )
    assert output.split() == ["MemoryError", "MemoryError", "RuntimeError", "MemoryError", str(64 << 20)]


def test_memory_counts_from_what_the_worker_holds_already():
    output = limited(
        """
        held = bytearray(700 << 20)
        apply()
        more = bytearray(300 << 20)
        try:
            bytearray(300 << 20)
        except MemoryError:
            print("refused")
        """,
        memory_mib=512,
    )
    assert output.split() == ["refused"]


def test_a_flood_of_output_stops_at_the_limit(tmp_path):
    flood = tmp_path / "flood"
    output = limited(
        f"""
        import os
        apply()
        descriptor = os.open({str(flood)!r}, os.O_WRONLY | os.O_CREAT)
        try:
            for _ in range(1024):
                os.write(descriptor, b"x" * (1 << 20))
        except OSError as error:
            print(error.errno)
        """
    )
    assert output.split() == ["27"]
    assert flood.stat().st_size == limits.FILE_BYTES


@filtered
def test_other_processes_cannot_be_signalled_and_limits_not_raised():
    output = limited(
        """
        import os, resource, signal
        limits_before = resource.getrlimit(resource.RLIMIT_AS)
        apply()
        def attempt(what):
            try:
                what()
                print("done")
            except (OSError, ValueError) as error:
                print(type(error).__name__)
        attempt(lambda: os.kill(os.getppid(), 0))
        attempt(lambda: os.kill(-1, 0))
        attempt(lambda: resource.setrlimit(resource.RLIMIT_AS, limits_before))
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        print(len(seen), resource.getrlimit(resource.RLIMIT_CORE))
        """
    )
    refused = output.split()[:3]
    assert refused[:2] == ["PermissionError"] * 2
    assert refused[2] in ("PermissionError", "ValueError")
    assert output.split(maxsplit=3)[3].split() == ["2", "(0,", "0)"]


def test_an_exercise_that_needs_processes_may_start_them():
    output = limited(
        """
        import subprocess, sys
        apply()
        print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout)
        """,
        processes=2,
    )
    assert output.split() == ["42"]


def test_a_worker_does_not_outlive_its_parent():
    parent = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, time\nfrom grader.worker import limits\nchild = os.fork()\n"
            "if not child:\n    limits.die_with_parent(); time.sleep(60)\ntime.sleep(0.5); print(child)",
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=30,
    )
    child = int(parent.stdout)
    for _ in range(100):
        try:
            if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail(f"process {child} is still there")


def test_abilities_say_something_about_each_limit():
    assert set(limits.abilities()) == {"memory", "processes", "files"}


@pytest.mark.parametrize("machine", sorted(limits._CALLS))
def test_the_filter_is_well_formed(machine):
    program = limits._program(machine, 1234)
    for index, (code, if_true, if_false, _) in enumerate(program):
        if code in (limits._EQUAL, limits._AT_LEAST, limits._HAS_BIT):
            assert index + 1 + max(if_true, if_false) < len(program)
    assert program[-1] == (limits._RETURN, 0, 0, limits._ALLOW)
