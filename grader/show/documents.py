"""The documents of --json for the commands that grade nothing; docs/report.md describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from grader.course import Chapter, ChapterPage, Course, Exercise, Track
from grader.doctor import Finding, State
from grader.show.standing import Standings, Sum, total
from grader.show.status import part_exercises, track_exercises
from grader.workspace import Change

if TYPE_CHECKING:
    from grader.judge.prove import Proof  # the judge is slow to import, and most commands do without it


def list_document(course: Course, chapters: Sequence[Chapter], standings: Standings) -> dict[str, object]:
    """`grade list --json`."""
    return {
        "schema": "llm-by-hand/list/1",
        "chapters": [
            {
                "id": chapter.id,
                "title": chapter.title,
                "part": chapter.part,
                "built": chapter.built,
                "prereqs": list(chapter.prereqs),
                "exercises": [_exercise(one, standings) for one in _exercises(course, chapter)],
            }
            for chapter in chapters
        ],
    }


def tracks_document(course: Course, tracks: Sequence[Track], standings: Standings) -> dict[str, object]:
    """`grade tracks --json`."""
    return {
        "schema": "llm-by-hand/tracks/1",
        "tracks": [
            {
                "key": track.key,
                "title": track.title,
                "about": track.about,
                "chapters": [{"id": id_, "built": course.chapter(id_).built} for id_ in track.chapters],
                **_sum(total(track_exercises(course, track.key), standings)),
            }
            for track in tracks
        ],
    }


def status_document(course: Course, standings: Standings) -> dict[str, object]:
    """`grade status --json`."""
    return {
        "schema": "llm-by-hand/status/1",
        "total": _sum(total(course.exercises(), standings)),
        "parts": [
            {"number": part.number, "title": part.title, **_sum(total(part_exercises(course, part.number), standings))}
            for part in course.parts
        ],
        "tracks": [
            {"key": track.key, "title": track.title, **_sum(total(track_exercises(course, track.key), standings))}
            for track in course.tracks
        ],
        "exercises": [_exercise(exercise, standings) for exercise in course.exercises()],
    }


def page_document(chapter: Chapter, page: ChapterPage, readme: str, standings: Standings) -> dict[str, object]:
    """`grade show --json`."""
    return {
        "schema": "llm-by-hand/page/1",
        "id": chapter.id,
        "title": chapter.title,
        "level": page.level,
        "outcome": page.outcome,
        "prereqs": list(chapter.prereqs),
        "sources": list(page.sources),
        "readme": readme,
        "exercises": [_exercise(exercise, standings) for exercise in page.exercises],
    }


def _exercises(course: Course, chapter: Chapter) -> tuple[Exercise, ...]:
    return course.page(chapter.id).exercises if chapter.built else ()


def _exercise(exercise: Exercise, standings: Standings) -> dict[str, object]:
    standing = standings.get(exercise.id)
    return {
        "id": exercise.id,
        "title": exercise.title,
        "kind": exercise.kind,
        "minutes": exercise.minutes,
        "points": exercise.points,
        "file": exercise.file,
        "best": None if standing is None else asdict(standing),
    }


def _sum(sum_: Sum) -> dict[str, object]:
    return {
        "exercises": sum_.exercises,
        "passed": sum_.passed,
        "begun": sum_.tried,
        "points": sum_.points,
        "possible": sum_.possible,
    }


def hints_document(exercise: Exercise, hints: Sequence[tuple[int, str]]) -> dict[str, object]:
    """`grade hint --json`."""
    return {
        "schema": "llm-by-hand/hints/1",
        "exercise": exercise.id,
        "of": len(exercise.hints),
        "hints": [{"number": number, "text": text} for number, text in hints],
    }


def change_document(change: Change) -> dict[str, object]:
    """`grade init --json`."""
    return {"schema": "llm-by-hand/init/1", **asdict(change), "workspace": str(change.workspace)}


def reset_document(workspace: Path, backups: Sequence[tuple[Exercise, Path | None]]) -> dict[str, object]:
    """`grade reset --json`."""
    return {
        "schema": "llm-by-hand/reset/1",
        "workspace": str(workspace),
        "exercises": [
            {"id": exercise.id, "file": exercise.file, "backup": str(backup) if backup else None}
            for exercise, backup in backups
        ],
    }


def doctor_document(findings: Sequence[Finding]) -> dict[str, object]:
    """`grade doctor --json`."""
    return {
        "schema": "llm-by-hand/doctor/1",
        "works": not any(finding.state is State.BROKEN for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def proof_document(proofs: Sequence[Proof]) -> dict[str, object]:
    """`grade dev check --json`."""
    return {
        "schema": "llm-by-hand/proof/1",
        "ok": all(proof.ok for proof in proofs),
        "exercises": [{**asdict(proof), "ok": proof.ok} for proof in proofs],
    }
