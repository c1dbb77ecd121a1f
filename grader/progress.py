"""The progress store: every attempt and every hint shown, kept for good in one SQLite file.

Attempts are only ever added. Two graders may write at once, and one may be killed at any moment. No connection outlives
an operation, so a worker that is forked while the judge runs never inherits one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from grader.report import Report
from grader.report_json import from_json, to_json

VARIABLE = "LLM_BY_HAND_STATE"
FILE = "progress.db"
SCHEMA = 1
BUSY_SECONDS = 20.0

T = TypeVar("T")

# One script per step: the n-th leads from schema n to n + 1.
_STEPS = (
    """
    CREATE TABLE attempts (
        id INTEGER PRIMARY KEY,
        exercise TEXT NOT NULL,
        at TEXT NOT NULL,
        passed INTEGER NOT NULL,
        points REAL NOT NULL,
        possible REAL NOT NULL,
        seed TEXT NOT NULL,
        source_sha256 TEXT NOT NULL,
        report TEXT NOT NULL
    );
    CREATE INDEX attempts_by_exercise ON attempts (exercise, passed, points);
    CREATE TRIGGER attempts_never_change BEFORE UPDATE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are only ever added'); END;
    CREATE TRIGGER attempts_never_go BEFORE DELETE ON attempts
        BEGIN SELECT RAISE(ABORT, 'attempts are only ever added'); END;
    CREATE TABLE hints (
        exercise TEXT NOT NULL,
        number INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (exercise, number)
    ) WITHOUT ROWID;
    """,
)


class ProgressError(Exception):
    """The progress store can't be used. The message says what to do."""


@dataclass(frozen=True)
class Attempt:
    """One graded submission."""

    exercise: str
    at: datetime
    """In UTC."""
    passed: bool
    """All of the exercise's checks were run, and passed."""
    points: float
    possible: float
    seed: int
    source_sha256: str
    """Of the submission's file; empty if it could not be read."""
    _document: str = field(repr=False)

    @property
    def report(self) -> Report:
        """The whole report."""
        return from_json(json.loads(self._document))


class Store:
    """The attempts and hints in one folder. Reading makes no file; the first attempt does."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.notices: list[str] = []
        """What the learner should be told: a damaged file that was moved aside, say."""

    def add(self, report: Report, *, whole: bool = True, source: bytes | None = None) -> Attempt:
        """Keep a report as an attempt. `whole=False`: only some checks were run, so the exercise isn't passed by it.

        source: the submission as it was graded; by default the file that the report names is read now.
        """
        attempt = Attempt(
            exercise=report.exercise,
            at=datetime.now(UTC),
            passed=report.passed and whole,
            points=report.points,
            possible=report.possible,
            seed=report.seed,
            source_sha256=_sha256(report.path, source),
            _document=json.dumps(to_json(report), allow_nan=False),
        )
        row = (
            attempt.exercise,
            attempt.at.isoformat(timespec="milliseconds"),
            attempt.passed,
            attempt.points,
            attempt.possible,
            str(attempt.seed),
            attempt.source_sha256,
            attempt._document,
        )
        columns = "exercise, at, passed, points, possible, seed, source_sha256, report"
        self._write(f"INSERT INTO attempts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return attempt

    def attempts(self, exercise: str) -> list[Attempt]:
        """All attempts at an exercise, the oldest first."""
        return self._read_attempts("WHERE exercise = ? ORDER BY id", exercise)

    def best(self) -> dict[str, Attempt]:
        """The best attempt at each exercise: passed before not passed, then more points, then the latest."""
        rank = "ROW_NUMBER() OVER (PARTITION BY exercise ORDER BY passed DESC, points DESC, id DESC)"
        found = self._read_attempts(
            f"WHERE id IN (SELECT id FROM (SELECT id, {rank} AS rank FROM attempts) WHERE rank = 1)"
        )
        return {attempt.exercise: attempt for attempt in found}

    def passed(self, exercise: str) -> bool:
        """Whether some attempt passed the exercise."""
        return bool(self._read("SELECT 1 FROM attempts WHERE exercise = ? AND passed LIMIT 1", (exercise,)))

    def passed_exercises(self) -> set[str]:
        """The ids of all exercises passed so far."""
        return {exercise for (exercise,) in self._read("SELECT DISTINCT exercise FROM attempts WHERE passed")}

    def hints_shown(self, exercise: str) -> int:
        """How many of an exercise's hints were shown so far."""
        rows = self._read("SELECT MAX(number) FROM hints WHERE exercise = ?", (exercise,))
        return int(rows[0][0] or 0) if rows else 0

    def add_hint(self, exercise: str, number: int) -> None:
        """Remember that hint `number` (1, 2 or 3) was shown; the first time counts."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write("INSERT OR IGNORE INTO hints VALUES (?, ?, ?)", (exercise, number, now))

    def _read_attempts(self, where: str, *values: object) -> list[Attempt]:
        columns = "exercise, at, passed, points, possible, seed, source_sha256, report"
        return [
            Attempt(exercise, datetime.fromisoformat(at), bool(passed), points, possible, int(seed), sha256, document)
            for exercise, at, passed, points, possible, seed, sha256, document in self._read(
                f"SELECT {columns} FROM attempts {where}", values
            )
        ]

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        def run() -> list[tuple[Any, ...]]:
            if not self.path.exists():
                return []
            with self._connection() as connection:
                return connection.execute(query, values).fetchall()

        return self._recovering(run)

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        def run() -> None:
            with self._connection() as connection, _transaction(connection):
                connection.execute(statement, values)

        self._recovering(run)

    def _recovering(self, run: Callable[[], T]) -> T:
        """Run an operation; if the file turns out to be damaged move it aside and start again with a new one."""
        try:
            try:
                identity = _identity(self.path)
                return run()
            except sqlite3.DatabaseError as error:
                if not _is_corrupt(error):
                    raise
                self._move_aside(identity)
                return run()
        except sqlite3.Error as error:
            raise ProgressError(
                f"progress can't be kept in {self.path}: {error}; --state DIR keeps it elsewhere"
            ) from None
        except OSError as error:
            raise ProgressError(
                f"progress can't be kept in {self.path.parent}: {error}; --state DIR keeps it elsewhere"
            ) from None

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one operation, to a file whose schema is up to date."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA:
                raise ProgressError(
                    f"{self.path} was written by a newer version of the grader (schema {version}, this one knows "
                    f"{SCHEMA}); upgrade llm-by-hand, or keep your progress elsewhere with --state DIR"
                )
            if version < SCHEMA:
                _upgrade(connection)
            yield connection
        finally:
            connection.close()

    def _move_aside(self, identity: tuple[int, int] | None) -> None:
        """Rename the damaged file, unless another grader has done so since this one opened it."""
        if identity is None or _identity(self.path) != identity:
            return
        stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
        aside = self.path.with_name(f"{self.path.stem}.damaged-{stamp}-{os.getpid()}{self.path.suffix}")
        # The write-ahead log goes first: left behind, SQLite would play it into the new file.
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        self.notices.append(
            f"the progress file {self.path} was damaged; it is kept as {aside.name}, a new one is begun"
        )


def open_store(state: Path | None = None) -> Store:
    """The store in the folder `state`, else in the one LLM_BY_HAND_STATE names, else in the user's data folder."""
    if state is not None:
        return Store(state)
    if named := os.environ.get(VARIABLE):
        return Store(Path(named))
    from platformdirs import user_data_dir

    return Store(Path(user_data_dir("llm-by-hand", appauthor=False)))


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Takes the write lock at once: two graders queue up instead of failing half-way."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _upgrade(connection: sqlite3.Connection) -> None:
    _use_write_ahead_log(connection)
    with _transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]  # another grader may have been faster
        for step in range(version, SCHEMA):
            for statement in _statements(_STEPS[step]):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(version, SCHEMA)}")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Kept in the file for good. SQLite doesn't wait for a lock here, so this does."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; a trigger's inner semicolons don't end one."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if statement.strip() and sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _is_corrupt(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _sha256(path: str, source: bytes | None) -> str:
    if source is None:
        try:
            source = Path(path).read_bytes()
        except OSError:
            return ""
    return hashlib.sha256(source).hexdigest()
