"""The progress store, and reports as JSON: nothing is lost, whatever happens."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from grader.progress import FILE, ProgressError, Store, open_store
from grader.report import Check, Cost, Mistake, Outcome, Report
from grader.report_json import SCHEMA, ReportError, from_json, to_json

PASSED = Check("worked_example", "a number by hand", Outcome.PASSED, 4.0, 4.0, seconds=0.25)
FAILED = Check(
    "matches_oracle",
    "any row",
    Outcome.FAILED,
    0.0,
    6.0,
    message="not close",
    call="f([1.0])",
    got="2.0",
    expected="1.0",
    where="[0]",
    traceback="x.py, line 3",
    output="hé \ud800\x00",
    mistakes=(Mistake("off_by_one", "Starts at one."),),
    costs=(Cost("temporary", float("inf"), 128.0, "at most", "one block"), Cost("calls", 3.0)),
)


def report(*checks: Check, exercise: str = "4.2/x", path: str = "/nowhere/x.py", seed: int = 7) -> Report:
    return Report(exercise, "About x", "numpy", path, checks, seed, "process", 1.5, versions={"numpy": "2.4"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "state")


class TestJson:
    def test_there_and_back(self) -> None:
        before = report(PASSED, FAILED, replace(PASSED, outcome=Outcome.NOT_MEASURED, points=0.0))
        text = json.dumps(to_json(before), allow_nan=False)
        assert from_json(json.loads(text)) == before

    def test_the_document(self) -> None:
        document = to_json(report(PASSED, FAILED))
        assert document["schema"] == SCHEMA == "llm-by-hand/report/1"
        assert (document["passed"], document["points"], document["possible"]) == (False, 4.0, 10.0)
        assert document["checks"][1]["outcome"] == "failed"
        assert document["checks"][1]["costs"][0]["value"] == "inf"
        assert type(document["checks"][1]["outcome"]) is str

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            ([], "a report is a JSON object, not list"),
            ({}, "the schema is None, this version of the grader reads 'llm-by-hand/report/1'"),
            ({"schema": "llm-by-hand/report/2"}, "the schema is 'llm-by-hand/report/2'"),
            ({"schema": SCHEMA}, "the field 'exercise' is missing"),
            (to_json(report()) | {"checks": 3}, "a field has the wrong type"),
            (to_json(report()) | {"checks": [3]}, "a field has the wrong type"),
            (to_json(report(PASSED)) | {"seed": "x"}, "a field has the wrong type"),
        ],
    )
    def test_other_documents_are_refused(self, document: object, message: str) -> None:
        with pytest.raises(ReportError, match=message):
            from_json(document)

    def test_unknown_fields_are_ignored(self) -> None:
        assert from_json(to_json(report(PASSED)) | {"new": 1}) == report(PASSED)


class TestAttempts:
    def test_kept_with_the_whole_report(self, store: Store, tmp_path: Path) -> None:
        path = tmp_path / "x.py"
        path.write_bytes(b"code\r\n")
        given = report(PASSED, FAILED, path=str(path), seed=2**64 + 1)
        added = store.add(given)
        (attempt,) = store.attempts("4.2/x")
        assert attempt.report == given
        assert attempt.seed == 2**64 + 1
        assert (attempt.passed, attempt.points, attempt.possible) == (False, 4.0, 10.0)
        assert attempt.source_sha256 == hashlib.sha256(b"code\r\n").hexdigest()
        assert abs((attempt.at - added.at).total_seconds()) < 0.002
        assert attempt.at.utcoffset() is not None

    def test_in_order(self, store: Store) -> None:
        for seed in range(5):
            store.add(report(PASSED, seed=seed))
            store.add(report(PASSED, seed=100, exercise="4.2/y"))
        assert [attempt.seed for attempt in store.attempts("4.2/x")] == [0, 1, 2, 3, 4]

    def test_best(self, store: Store) -> None:
        store.add(report(PASSED, FAILED, seed=1))
        store.add(report(FAILED, seed=2))
        assert store.best()["4.2/x"].seed == 1
        store.add(report(replace(PASSED, points=3.0), seed=3))
        assert store.best()["4.2/x"].seed == 3, "passed goes before points"
        store.add(report(PASSED, seed=4))
        store.add(report(PASSED, seed=5))
        store.add(report(FAILED, seed=6))
        store.add(report(FAILED, exercise="4.2/y", seed=7))
        assert {exercise: attempt.seed for exercise, attempt in store.best().items()} == {"4.2/x": 5, "4.2/y": 7}

    def test_passed(self, store: Store) -> None:
        assert not store.passed("4.2/x")
        store.add(report(PASSED, FAILED))
        store.add(report(PASSED), whole=False)
        assert not store.passed("4.2/x"), "some of the checks are not all of them"
        store.add(report(PASSED))
        store.add(report(FAILED))
        assert store.passed("4.2/x")
        assert store.passed_exercises() == {"4.2/x"}

    def test_the_source_can_be_given(self, store: Store) -> None:
        assert store.add(report(PASSED), source=b"x").source_sha256 == hashlib.sha256(b"x").hexdigest()
        assert store.add(report(PASSED)).source_sha256 == ""

    def test_only_ever_added(self, store: Store) -> None:
        store.add(report(PASSED))
        connection = sqlite3.connect(store.path)
        for statement in ("DELETE FROM attempts", "UPDATE attempts SET passed = 0"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
                connection.execute(statement)
        connection.close()


def test_hints(store: Store) -> None:
    assert store.hints_shown("4.2/x") == 0
    store.add_hint("4.2/x", 1)
    store.add_hint("4.2/x", 2)
    store.add_hint("4.2/x", 1)
    assert (store.hints_shown("4.2/x"), store.hints_shown("4.2/y")) == (2, 0)


class TestTheFile:
    def test_reading_makes_none(self, store: Store) -> None:
        assert (store.best(), store.attempts("x"), store.passed("x"), store.hints_shown("x")) == ({}, [], False, 0)
        assert store.passed_exercises() == set()
        assert not store.path.parent.exists()

    def test_where_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LLM_BY_HAND_STATE", str(tmp_path / "variable"))
        assert open_store().path == tmp_path / "variable" / FILE
        assert open_store(tmp_path / "option").path == tmp_path / "option" / FILE
        monkeypatch.delenv("LLM_BY_HAND_STATE")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        assert "llm-by-hand" in str(open_store().path)

    def test_no_connection_is_left_open(self, store: Store) -> None:
        """A forked worker would inherit it."""
        store.add(report(PASSED))
        store.best()
        if Path("/proc/self/fd").is_dir():
            opened = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
            assert not [name for name in opened if FILE in name]

    def test_a_newer_schema_is_refused_and_left_alone(self, store: Store) -> None:
        store.add(report(PASSED))
        connection = sqlite3.connect(store.path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        for use in (store.best, lambda: store.add(report(PASSED))):
            with pytest.raises(
                ProgressError, match=r"newer version of the grader \(schema 99, this one knows 1\); upgrade"
            ):
                use()
        assert store.notices == []

    @pytest.mark.parametrize("damage", ["rubbish", "header", "middle"])
    def test_a_damaged_file_is_moved_aside(self, store: Store, damage: str) -> None:
        for seed in range(40):
            store.add(report(PASSED, FAILED, seed=seed))
        whole = store.path.read_bytes()
        if damage == "rubbish":
            harmed = b"not a database at all " * 500
        elif damage == "header":
            harmed = b"\xa5" * 100 + whole[100:]
        else:
            harmed = whole[:4096] + b"\xa5" * (len(whole) - 4096)
        store.path.write_bytes(harmed)
        store.add(report(PASSED, seed=1000))
        assert [attempt.seed for attempt in store.attempts("4.2/x")] == [1000]
        (aside,) = store.path.parent.glob("progress.damaged-*.db")
        assert aside.read_bytes()[100:] == harmed[100:]
        (notice,) = store.notices
        assert "was damaged; it is kept as progress.damaged-" in notice

    def test_a_damaged_file_is_found_by_reading_too(self, store: Store) -> None:
        store.add(report(PASSED))
        store.path.write_bytes(b"rubbish" * 1000)
        assert store.best() == {}
        assert store.notices
        assert not store.path.exists()
        assert store.best() == {}

    def test_the_old_log_is_not_played_into_the_new_file(self, store: Store) -> None:
        store.add(report(PASSED, seed=1))
        keeper = sqlite3.connect(store.path)  # while it is open the write-ahead log stays
        keeper.execute("SELECT * FROM attempts").fetchall()
        store.add(report(PASSED, seed=2))
        assert Path(f"{store.path}-wal").stat().st_size
        with store.path.open("r+b") as file:
            file.write(b"rubbish!" * 12)
        Path(f"{store.path}-wal").write_bytes(b"\xff" * 64)
        store.add(report(PASSED, seed=3))
        keeper.close()
        assert 3 in [attempt.seed for attempt in store.attempts("4.2/x")]
        connection = sqlite3.connect(store.path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()

    def test_an_empty_file_is_a_new_one(self, store: Store) -> None:
        store.path.parent.mkdir()
        store.path.touch()
        assert store.best() == {}
        store.add(report(PASSED))
        assert store.passed("4.2/x")
        assert store.notices == []

    def test_a_place_that_can_not_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ProgressError, match=r"progress can't be kept in .*; --state DIR keeps it elsewhere"):
            open_store(tmp_path / "file" / "state").add(report(PASSED))

    def test_a_folder_in_its_place(self, store: Store) -> None:
        store.path.mkdir(parents=True)
        with pytest.raises(ProgressError, match="progress can't be kept in"):
            store.add(report(PASSED))


WRITER = """
import sys
from pathlib import Path
from grader.progress import open_store
from grader.report import Check, Outcome, Report
store = open_store(Path(sys.argv[1]))
name, count = sys.argv[2], int(sys.argv[3])
for seed in range(count):
    check = Check("c", "about", Outcome.PASSED, 1, 1, output="x" * 20000)
    store.add(Report(name, "t", "python", "x.py", (check,), seed, "process"))
    print(seed, flush=True)
"""


def test_graders_at_once(tmp_path: Path) -> None:
    """Also at the very first moment, when there is no file yet."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name, "15"], stdout=subprocess.DEVNULL)
        for name in ("4.2/a", "4.2/b", "4.2/c")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = open_store(tmp_path)
    for name in ("4.2/a", "4.2/b", "4.2/c"):
        assert [attempt.seed for attempt in store.attempts(name)] == list(range(15))
    assert store.notices == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_grader_loses_nothing_it_had_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for attempt in range(3):
        name = f"4.2/x{attempt}"
        command = [sys.executable, "-c", WRITER, str(tmp_path), name, "100000"]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        kept = [int(writer.stdout.readline()) for _ in range(5 + 3 * attempt)]
        time.sleep(0.003 * attempt)
        writer.kill()
        kept += [int(line) for line in writer.stdout.read().split()]
        writer.wait()
        seeds = [attempt.seed for attempt in store.attempts(name)]
        assert seeds[: len(kept)] == kept
        assert len(seeds) <= len(kept) + 1
        store.add(report(PASSED))
    assert store.notices == []
