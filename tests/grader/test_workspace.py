"""The learner's files: nothing that was edited is ever lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from small_course import stub, write_course

from grader.course import Course, load
from grader.workspace import MARK, WorkspaceError, find_workspace, init, reset, submission_path, update

DOT = "exercises/01_foundations/01_vectors/dot.py"
NORM = "exercises/01_foundations/01_vectors/norm.py"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load(write_course(tmp_path / "course"))


@pytest.fixture
def workspace(course: Course, tmp_path: Path) -> Path:
    return init(course, tmp_path / "mine").workspace


def change_solution(course: Course, exercise_id: str) -> str:
    """Change an exercise in the course; returns its new stub."""
    path = course.solution_path(course.exercise(exercise_id))
    path.write_text(path.read_text().replace("a number.", "one number."))
    return stub(exercise_id).replace("a number.", "one number.")


def everything(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


class TestInit:
    def test_into_a_new_folder(self, course: Course, tmp_path: Path) -> None:
        change = init(course, tmp_path / "deep" / "mine")
        assert change.workspace == (tmp_path / "deep" / "mine").resolve()
        files = everything(change.workspace)
        assert set(change.added) == set(files) - {MARK}
        assert files[DOT] == stub("1.1/dot")
        assert files["exercises/01_foundations/01_vectors/README.md"] == "# Vectors\n"
        assert len(files) == 1 + 2 + 3 + 5
        assert not [name for name in files if "chapter.yaml" in name or "solution" in name]
        assert len(files["README.md"].splitlines()) == 3
        assert "tutor" in files["AGENTS.md"]

    def test_into_an_empty_folder_or_one_with_only_hidden_files(self, course: Course, tmp_path: Path) -> None:
        (tmp_path / "mine" / ".git").mkdir(parents=True)
        assert init(course, tmp_path / "mine").added

    def test_not_into_a_folder_with_something_else(self, course: Course, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("words")
        with pytest.raises(
            WorkspaceError, match=r"mine is not empty \(thesis\.tex\) and no workspace; name a new or an"
        ):
            init(course, tmp_path / "mine")
        assert everything(tmp_path / "mine") == {"thesis.tex": "words"}

    def test_not_into_a_file(self, course: Course, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("")
        with pytest.raises(WorkspaceError, match="mine is a file; name a folder"):
            init(course, tmp_path / "mine")
        with pytest.raises(WorkspaceError, match="can't be made or read"):
            init(course, tmp_path / "mine" / "more")

    def test_not_into_the_course_itself(self, course: Course) -> None:
        before = everything(course.root)
        with pytest.raises(WorkspaceError, match="is the course itself, and a workspace already"):
            init(course, course.root)
        assert everything(course.root) == before

    def test_stubs_come_from_the_solutions(self, course: Course, tmp_path: Path) -> None:
        """In a checkout, exercises/ holds its owner's own work."""
        course.stub_path(course.exercise("1.1/dot")).write_text("my own work\n")
        assert (init(course, tmp_path / "mine").workspace / DOT).read_text() == stub("1.1/dot")

    def test_an_interrupted_init_goes_on(self, course: Course, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / MARK).write_text("{}")
        (tmp_path / "mine" / "README.md").write_text(
            everything(init(course, tmp_path / "other").workspace)["README.md"]
        )
        assert "README.md" not in init(course, tmp_path / "mine").added
        assert everything(tmp_path / "mine") == everything(tmp_path / "other")


class TestUpdate:
    def test_nothing_to_do(self, course: Course, workspace: Path) -> None:
        before = everything(workspace)
        change = init(course, workspace)
        assert (change.added, change.updated, change.beside, change.edited) == ((), (), (), ())
        assert everything(workspace) == before

    def test_an_edited_file_stays(self, course: Course, workspace: Path) -> None:
        (workspace / DOT).write_text("mine\n")
        change = init(course, workspace)
        assert change.edited == (DOT,)
        assert (workspace / DOT).read_text() == "mine\n"
        assert not (workspace / f"{DOT}.new").exists()

    def test_an_untouched_file_is_updated(self, course: Course, workspace: Path) -> None:
        new = change_solution(course, "1.1/dot")
        assert init(course, workspace).updated == (DOT,)
        assert (workspace / DOT).read_text() == new
        assert init(course, workspace).updated == ()

    def test_a_changed_stub_goes_beside_an_edited_file(self, course: Course, workspace: Path) -> None:
        (workspace / DOT).write_text("mine\n")
        new = change_solution(course, "1.1/dot")
        assert init(course, workspace).beside == (DOT,)
        assert (workspace / DOT).read_text() == "mine\n"
        assert (workspace / f"{DOT}.new").read_text() == new
        # Once is enough, also when the learner has dealt with it.
        (workspace / f"{DOT}.new").unlink()
        change = init(course, workspace)
        assert (change.beside, change.edited) == ((), (DOT,))
        assert not (workspace / f"{DOT}.new").exists()

    def test_an_edited_new_file_is_kept_too(self, course: Course, workspace: Path) -> None:
        (workspace / DOT).write_text("mine\n")
        (workspace / f"{DOT}.new").write_text("half merged\n")
        change_solution(course, "1.1/dot")
        init(course, workspace)
        assert "half merged\n" in everything(workspace / ".backups").values()

    def test_new_chapters_and_lost_files_are_added(self, course: Course, workspace: Path, tmp_path: Path) -> None:
        (workspace / DOT).unlink()
        mark = json.loads((workspace / MARK).read_text())
        del mark["issued"][NORM]
        (workspace / MARK).write_text(json.dumps(mark))
        (workspace / NORM).unlink()
        assert init(course, workspace).added == (DOT, NORM)

    def test_a_file_of_unknown_origin_counts_as_edited(self, course: Course, workspace: Path) -> None:
        (workspace / MARK).write_text("{}")
        (workspace / DOT).write_text("mine\n")
        assert init(course, workspace).beside == (DOT,)
        assert (workspace / DOT).read_text() == "mine\n"

    @pytest.mark.parametrize("mark", ["", "[]", '{"issued": 3}', "\x00"])
    def test_a_damaged_mark_is_said(self, course: Course, workspace: Path, mark: str) -> None:
        (workspace / MARK).write_text(mark)
        with pytest.raises(WorkspaceError, match=r"\.llm-by-hand\.json .*restore it, or write \{\} into it"):
            init(course, workspace)

    def test_a_newer_mark_is_said(self, course: Course, workspace: Path) -> None:
        (workspace / MARK).write_text('{"schema": 99, "issued": {}}')
        with pytest.raises(WorkspaceError, match="made by a newer version"):
            init(course, workspace)

    def test_a_checkout_is_updated_with_git(self, course: Course) -> None:
        with pytest.raises(WorkspaceError, match="a checkout is updated with git"):
            update(course, course.root)

    def test_what_was_done_before_a_failure_is_remembered(
        self, course: Course, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise an unedited file would count as edited afterwards."""
        new = change_solution(course, "1.1/dot")
        change_solution(course, "1.1/norm")
        import grader.workspace

        real = grader.workspace.write_atomically

        def full(path: Path, content: str | bytes) -> None:
            if path.name == "norm.py":
                raise OSError("disk full")
            real(path, content)

        monkeypatch.setattr(grader.workspace, "write_atomically", full)
        with pytest.raises(WorkspaceError, match="can't be written: disk full"):
            update(course, workspace)
        monkeypatch.undo()
        assert (workspace / DOT).read_text() == new
        assert update(course, workspace).updated == (NORM,)


class TestReset:
    def test_keeps_a_backup(self, course: Course, workspace: Path) -> None:
        exercise = course.exercise("1.1/dot")
        path = submission_path(workspace, exercise)
        assert path == workspace / DOT
        path.write_text("mine\n")
        backup = reset(course, workspace, exercise)
        assert backup is not None
        assert backup.parent == workspace / ".backups/exercises/01_foundations/01_vectors"
        assert re.fullmatch(r"dot\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.py", backup.name)
        assert backup.read_text() == "mine\n"
        assert path.read_text() == stub("1.1/dot")
        assert init(course, workspace).edited == ()

    def test_twice_in_a_second_keeps_two(self, course: Course, workspace: Path) -> None:
        exercise = course.exercise("1.1/dot")
        backups = set()
        for text in ("one\n", "two\n", "three\n"):
            (workspace / DOT).write_text(text)
            backups.add(reset(course, workspace, exercise))
        assert {backup.read_text() for backup in backups if backup} == {"one\n", "two\n", "three\n"}

    def test_nothing_to_keep(self, course: Course, workspace: Path) -> None:
        exercise = course.exercise("1.1/dot")
        assert reset(course, workspace, exercise) is None
        (workspace / DOT).unlink()
        assert reset(course, workspace, exercise) is None
        assert (workspace / DOT).read_text() == stub("1.1/dot")

    def test_in_the_checkout(self, course: Course) -> None:
        exercise = course.exercise("1.1/dot")
        (course.root / DOT).write_text("mine\n")
        backup = reset(course, course.root, exercise)
        assert backup is not None
        assert backup.read_text() == "mine\n"
        assert (course.root / DOT).read_text() == stub("1.1/dot")
        assert not (course.root / MARK).exists()

    def test_mode_and_links_stay(self, course: Course, workspace: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere.py"
        elsewhere.write_text("mine\n")
        elsewhere.chmod(0o600)
        (workspace / DOT).unlink()
        (workspace / DOT).symlink_to(elsewhere)
        reset(course, workspace, course.exercise("1.1/dot"))
        assert (workspace / DOT).is_symlink()
        assert elsewhere.read_text() == stub("1.1/dot")
        assert elsewhere.stat().st_mode & 0o777 == 0o600


class TestFinding:
    def test_from_inside(self, course: Course, workspace: Path) -> None:
        assert find_workspace(workspace) == workspace
        assert find_workspace(workspace / "exercises/01_foundations") == workspace
        assert find_workspace(course.root / "exercises") == course.root.resolve()

    def test_nowhere(self, tmp_path: Path) -> None:
        with pytest.raises(
            WorkspaceError, match="is in no workspace; `grade init my-course` makes one, --workspace DIR"
        ):
            find_workspace(tmp_path)

    def test_a_folder_called_exercises_is_not_enough(self, tmp_path: Path) -> None:
        (tmp_path / "exercises").mkdir()
        with pytest.raises(WorkspaceError):
            find_workspace(tmp_path)


def test_the_wheel_carries_the_course(tmp_path: Path) -> None:
    """Built from the checkout, used far from it."""
    if not (load().root / "pyproject.toml").is_file():
        pytest.skip("this is no checkout")
    pytest.importorskip("hatchling")
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=load().root, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        names = archive.namelist()
    assert not [name for name in names if "__pycache__" in name or name.endswith(".new")]
    code = (
        "from pathlib import Path; import grader.course as c, grader.workspace as w; course = c.load();"
        "change = w.init(course, Path('mine')); print(course.root, len(change.added), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    root, added = done.stdout.split("\n")[:2]
    assert Path(root) == (tmp_path / "site/grader/_course").resolve()
    assert int(added) > len(list(load().exercises()))
