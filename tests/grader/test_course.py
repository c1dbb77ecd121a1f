"""The course as data: what is read, what is refused and in which words, and what people may type."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_course import CHAPTER, EXERCISE, write_course

from grader.course import Course, CourseError, Limits, NotBuiltError, TargetError, find, load


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_course(tmp_path)


@pytest.fixture
def course(root: Path) -> Course:
    return load(root)


def ids(course: Course, target: str, **options: object) -> list[str]:
    return [exercise.id for exercise in find(course, target, **options)]  # type: ignore[arg-type]


class TestTheRealCourse:
    def test_has_all_parts_chapters_and_tracks(self) -> None:
        course = load()
        assert [part.number for part in course.parts] == list(range(1, 15))
        assert [len(part.chapters) for part in course.parts] == [10, 12, 17, 10, 13, 12, 14, 9, 6, 5, 6, 8, 6, 12]
        assert len(list(course.chapters())) == 140
        assert [t.key for t in course.tracks] == ["pretraining", "inference", "alignment", "agents", "gpu", "interview"]
        assert [len(track.chapters) for track in course.tracks] == [14, 14, 12, 13, 12, 15]
        assert course.track("pretraining").chapters[-2:] == ("3.17", "14.1")
        assert course.chapter("4.2").folder == "04_kernels/02_flash_attention_1"
        assert "4.10" in course.track("gpu").chapters

    def test_every_built_chapter_reads_and_is_complete(self) -> None:
        course = load()
        assert [exercise.id for exercise in course.exercises()]

    def test_the_checks_cost_little_beside_the_parsing(self) -> None:
        text = (load().root / "tracks.yaml").read_text()
        parsing, loading = [], []
        for _ in range(7):
            start = time.process_time()
            yaml.load(text, Loader=yaml.CSafeLoader)
            middle = time.process_time()
            load()
            parsing.append(middle - start)
            loading.append(time.process_time() - middle)
        assert min(loading) < 3 * min(parsing)


def test_nothing_slow_is_imported() -> None:
    modules = "grader.course, grader.workspace, grader.progress, grader.stubs, grader.report_json"
    code = (
        f"import sys, {modules}; print([m for m in ('torch', 'numpy', 'rich', 'pytest', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestReading:
    def test_a_page(self, course: Course) -> None:
        page = course.page("1.3")
        assert (page.title, page.level, page.outcome) == ("Memory: Caches", "core", "Do it, and know why.")
        (exercise,) = page.exercises
        assert (exercise.id, exercise.chapter, exercise.points) == ("1.3/roofline", "1.3", 10.0)
        assert exercise.file == "01_foundations/03_memory/roofline.py"
        assert exercise.limits == Limits(check_seconds=20)
        assert exercise.mistakes == {"off_by_one": "Starts at one."}
        assert course.solution_path(exercise).read_text().startswith('"""One line."""')
        assert course.tests_path(exercise) == course.root / "tests/chapters/01_foundations/03_memory/test_roofline.py"
        assert course.mistakes_path(exercise).parts[-2:] == ("mistakes", "roofline.py")

    def test_only_the_page_asked_for_is_read(self, root: Path) -> None:
        (root / "exercises/01_foundations/01_vectors/chapter.yaml").write_text("][")
        assert ids(load(root), "2.1") == ["2.1/roofline", "2.1/online_softmax"]

    def test_alternatives(self, course: Course) -> None:
        exercise = course.exercise("2.1/online_softmax")
        assert course.alternatives(exercise) == []
        folder = course.tests_path(exercise).parent / "alternatives" / "online_softmax"
        folder.mkdir(parents=True)
        for name in ("two.py", "one.py"):
            (folder / name).touch()
        assert [path.name for path in course.alternatives(exercise)] == ["one.py", "two.py"]

    def test_built_is_whether_there_is_a_chapter_yaml(self, course: Course) -> None:
        assert [c.id for c in course.chapters() if c.built] == ["1.1", "1.3", "2.1"]

    def test_exercises_can_be_keys(self, course: Course) -> None:
        assert len(set(course.exercises())) == 5

    def test_the_variable_names_a_course(self, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("LLM_BY_HAND_COURSE", str(root))
        assert load().root == root.resolve()
        monkeypatch.setenv("LLM_BY_HAND_COURSE", str(tmp_path / "nowhere"))
        with pytest.raises(CourseError, match=r"LLM_BY_HAND_COURSE is .*nowhere.*no tracks\.yaml"):
            load()


TRACKS_FAULTS = [
    ('["1.1", "1.2", "2.1"]', '["1.1", "1.22", "2.1"]', "track short: there is no chapter 1.22; did you mean 1.2"),
    ('["1.1", "1.2", "2.1"]', '["1.1", "1.1"]', "track short: chapter 1.1 is there twice"),
    ("key: planned", "key: short", "track short: this key is there twice"),
    ("key: planned", "key: all", "track all: a track can't be called all"),
    ('id: "1.2"', 'id: "1.1"', "part 1, chapter 1.1: this id is there twice"),
    ('id: "1.2"', "id: 1.2", 'part 1, chapter 1.2: id must be a string, not 1.2; write "1.2" in quotes'),
    ('id: "1.2"', 'id: "1.4"', 'chapter 1.4: id must be "1.2": chapters are numbered in their order'),
    ("number: 2", "number: 3", "part 3: number must be 2"),
    ("slug: matrices", "slug: vectors", "chapter 1.2: slug vectors is there twice in this part"),
    ("slug: matrices", "slug: Matrices", "slug 'Matrices' must be lower case words joined by underscores"),
    ('"Vectors", prereqs: []', '"Vectors", prereqs: ["9.9"]', "chapter 1.1: there is no prereq 9.9"),
    ('"Vectors", prereqs: []', '"Vectors", prereqs: ["1.1"]', "prereqs in a circle: 1.1 needs 1.1"),
    ('"Vectors", prereqs: []', '"Vectors", prereqs: ["2.2"]', "prereqs in a circle: 1.1 needs 2.2 needs 2.1 needs 1.1"),
    ('"Vectors", prereqs: []', '"Vectors"', "chapter 1.1: prereqs missing"),
    ('"Vectors", prereqs: []', '"Vectors", prereq: []', "unknown key 'prereq'; did you mean prereqs"),
    (
        '"Vectors", prereqs: []',
        '"Vectors", prereqs: [1.1]',
        'prereqs holds 1.1, a string is expected; write "1.1" in quotes',
    ),
    ('title: "Vectors"', 'title: ""', "chapter 1.1: title is empty"),
    (
        "title: Models",
        "title: Models\n    title: Models",
        "line 11, column 5: this is not valid YAML: 'title' is there twice",
    ),
    ("tracks:", "tracks: [", "this is not valid YAML"),
    ("parts:", "part:", "unknown key 'part'; did you mean parts"),
]


@pytest.mark.parametrize(("before", "after", "message"), TRACKS_FAULTS, ids=[fault[2][:40] for fault in TRACKS_FAULTS])
def test_a_fault_in_tracks_yaml_is_named(root: Path, before: str, after: str, message: str) -> None:
    path = root / "tracks.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(CourseError, match=re.escape(message)) as caught:
        load(root)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "parts: 3\ntracks: 4\n", "\x00", "parts: [3]\ntracks: []\n", "? [a]\n: 3\n"]
)
def test_any_other_tracks_yaml_is_refused(root: Path, text: str) -> None:
    (root / "tracks.yaml").write_text(text)
    with pytest.raises(CourseError):
        load(root)


def test_no_tracks_yaml(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="there is no such file"):
        load(tmp_path)


CHAPTER_FAULTS = [
    ('title: "Attention"', 'title: "Atention"', "title is 'Atention', tracks.yaml says 'Attention'"),
    ('prereqs: ["1.1"]', "prereqs: []", "prereqs are none; tracks.yaml says 1.1"),
    ('id: "2.1"', 'id: "2.2"', "id is '2.2', tracks.yaml says '2.1'"),
    ("level: core", "level: hard", "level 'hard' must be one of intro, core, advanced"),
    ("level: core", "levle: core", "unknown key 'levle'; did you mean level"),
    ("level: core\n", "", "level missing"),
    ("kind: numpy", "kind: jax", "exercise roofline: kind 'jax' must be one of python, numpy, torch, triton, cuda"),
    ("minutes: 20", "minutes: long", "exercise roofline: minutes must be a whole number, not 'long'"),
    ("minutes: 20", "minutes: true", "minutes must be a whole number, not True"),
    ("points: 10", "points: 0", "points is 0, more than 0 expected"),
    ("points: 10", "points: .nan", "points is nan"),
    ('"a nudge", ', "", "2 hints, exactly 3 expected"),
    ('hints: ["a nudge", ', "hints: [5, ", "hints holds 5, a string is expected"),
    ('"Starts at one."', '""', "exercise roofline, mistakes: off_by_one is empty"),
    ('"Starts at one."', "", "mistakes: off_by_one must be a string, not nothing"),
    ("off_by_one:", "Off by one:", "mistakes: the name 'Off by one' must be lower case"),
    ('mistakes:\n      off_by_one: "Starts at one."', "mistakes: {}", "mistakes: none is listed"),
    ("check_seconds: 20", "check_second: 20", "limits: unknown key 'check_second'; did you mean check_seconds"),
    ("check_seconds: 20", "memory_mib: 1.5", "limits: memory_mib must be a whole number, not 1.5"),
    ('forbid: ["numpy.dot"]', 'forbid: "numpy.dot"', "forbid must be a list of strings, not 'numpy.dot'"),
    ('forbid: ["numpy.dot"]', 'gpu: [{shape: "x"}]', "exercise roofline, gpu x: target missing"),
    ("slug: online_softmax", "slug: roofline", "exercise roofline: this slug is there twice"),
    ("slug: online_softmax", "slug: next", "an exercise can't be called next"),
]


@pytest.mark.parametrize(
    ("before", "after", "message"), CHAPTER_FAULTS, ids=[fault[2][:40] for fault in CHAPTER_FAULTS]
)
def test_a_fault_in_a_chapter_yaml_is_named(root: Path, before: str, after: str, message: str) -> None:
    path = root / "exercises/02_models/01_attention/chapter.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(CourseError, match=re.escape(message)) as caught:
        load(root).page("2.1")
    assert str(caught.value).startswith(str(path))


def test_a_chapter_without_exercises_is_refused(root: Path) -> None:
    (root / "exercises/01_foundations/02_matrices").mkdir()
    path = root / "exercises/01_foundations/02_matrices/chapter.yaml"
    path.write_text(CHAPTER.format(id="1.2", title="Matrices", prereqs='"1.1"').replace("exercises:", "exercises: []"))
    with pytest.raises(CourseError, match="exercises is empty"):
        load(root).page("1.2")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("exercises/02_models/01_attention/roofline.py", "2.1/roofline lacks the stub; `grade dev stubs` makes it"),
        ("solutions/02_models/01_attention/roofline.py", "2.1/roofline lacks the solution"),
        ("tests/chapters/02_models/01_attention/test_roofline.py", "2.1/roofline lacks the hidden tests"),
    ],
)
def test_a_missing_file_is_named(root: Path, file: str, message: str) -> None:
    (root / file).unlink()
    with pytest.raises(CourseError, match=message) as caught:
        load(root).page("2.1")
    assert str(root / file) in str(caught.value)
    # The rest of the chapter can still be worked on by name.
    assert ids(load(root), "2.1/online_softmax") == ids(load(root), "online_softmax") == ["2.1/online_softmax"]
    assert load(root).exercise("2.1/online_softmax").slug == "online_softmax"


class TestFinding:
    @pytest.mark.parametrize(
        "target",
        [
            "2.1",
            "02.1",
            "2.01",
            "2.1/",
            "2/1",
            "2-1",
            "02/01",
            "02_models/01_attention",
            "exercises/02_models/01_attention/",
            "attention",
            "./exercises/02_models/01_attention",
            "/home/me/exercises/02_models/01_attention",
            "2",
        ],
    )
    def test_a_chapter(self, course: Course, target: str) -> None:
        assert ids(course, target) == ["2.1/roofline", "2.1/online_softmax"]

    @pytest.mark.parametrize(
        "target",
        [
            "2.1/online_softmax",
            "02.01/online_softmax",
            "online_softmax",
            "online-softmax",
            "Online_Softmax",
            "online_softmax.py",
            "2.1/online-softmax.py",
            "2/1/online_softmax",
            "2/online_softmax",
            "exercises/02_models/01_attention/online_softmax.py",
            "solutions/02_models/01_attention/online_softmax.py",
            "02_models/01_attention/online_softmax",
        ],
    )
    def test_an_exercise(self, course: Course, target: str) -> None:
        assert ids(course, target) == ["2.1/online_softmax"]

    def test_a_part_a_track_all(self, course: Course) -> None:
        everything = ["1.1/dot", "1.1/norm", "1.3/roofline", "2.1/roofline", "2.1/online_softmax"]
        assert ids(course, "all") == everything
        assert ids(course, "1") == ids(course, "01") == ids(course, "01_foundations") == everything[:3]
        assert ids(course, "short") == [*everything[:2], *everything[3:]]

    def test_next(self, course: Course) -> None:
        done = {"1.1/dot"}.__contains__
        assert ids(course, "next") == ["1.1/dot"]
        assert ids(course, "next", done=done) == ["1.1/norm"]
        both = {"1.1/dot", "1.1/norm"}.__contains__
        assert ids(course, "next", done=both) == ["1.3/roofline"]
        assert ids(course, "next", done=both, track="short") == ids(course, "short/next", done=both) == ["2.1/roofline"]
        assert ids(course, "2.1/next", done={"2.1/roofline"}.__contains__) == ["2.1/online_softmax"]
        assert ids(course, "next", done=lambda exercise: True) == []

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("onlin_softmax", "no exercise 'onlin_softmax'; did you mean online_softmax?"),
            ("2.1/rooflin", "no exercise 'rooflin' in 2.1; did you mean roofline?"),
            ("2.1/zzz", "no exercise 'zzz' in 2.1; its exercises are roofline, online_softmax"),
            ("1/dott", "no exercise 'dott' in part 1; did you mean dot?"),
            ("roofline", "roofline is in two chapters; say which: 1.3/roofline or 2.1/roofline"),
            ("shrot", "no exercise 'shrot'; did you mean short?"),
            ("nxt", "no exercise 'nxt'; did you mean next?"),
            ("qqq", "no exercise 'qqq'; `grade list` shows all"),
            ("2.7", "there is no chapter 2.7; those of part 2 are 2.1 to 2.2"),
            ("2.0", "there is no chapter 2.0; those of part 2 are 2.1 to 2.2"),
            ("17", "there is no part 17; the parts are 1 to 2"),
            ("17.2", "there is no part 17; the parts are 1 to 2"),
            ("", "no target; name a chapter (4.2), an exercise (4.2/online_softmax), a track, next or all"),
            ("/", "no target"),
            ("4.2.1", "no exercise '4.2.1'"),
        ],
    )
    def test_what_names_nothing(self, course: Course, target: str, message: str) -> None:
        with pytest.raises(TargetError, match=re.escape(message)):
            find(course, target)

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("1.2", "1.2 Matrices is not built yet; next on this track (short): 2.1 Attention"),
            ("1.2/something", "1.2 Matrices is not built yet; next on this track (short): 2.1 Attention"),
            ("matrices", "1.2 Matrices is not built yet; next on this track (short): 2.1 Attention"),
            ("2.2", "2.2 Optimizers is not built yet; nothing later on planned is built; built so far: 1.1, 1.3, 2.1"),
            ("planned", "no chapter of the track planned is built yet; built so far: 1.1, 1.3, 2.1"),
        ],
    )
    def test_what_is_not_built(self, course: Course, target: str, message: str) -> None:
        with pytest.raises(NotBuiltError) as caught:
            find(course, target)
        assert str(caught.value) == message

    def test_a_part_that_is_not_built(self, root: Path) -> None:
        shutil.rmtree(root / "exercises/02_models")
        with pytest.raises(
            NotBuiltError, match=r"no chapter of part 2, Models, is built yet; built so far: 1\.1, 1\.3"
        ):
            find(load(root), "2")

    def test_where_to_go_instead_is_data_too(self, course: Course) -> None:
        with pytest.raises(NotBuiltError) as caught:
            find(course, "1.2")
        ((track, chapter),) = caught.value.following
        assert track is not None
        assert (track.key, chapter.id) == ("short", "2.1")

    def test_next_on_several_tracks(self, course: Course) -> None:
        long = replace(course.track("planned"), key="long", chapters=("1.2", "1.3"))
        with pytest.raises(NotBuiltError, match=r"next on this track \(short\): 2.1 Attention or \(long\): 1.3 Memory"):
            find(replace(course, tracks=(*course.tracks, long)), "1.2")

    def test_a_damaged_chapter_is_said(self, root: Path) -> None:
        path = root / "exercises/02_models/01_attention/chapter.yaml"
        path.write_text(path.read_text() + EXERCISE.format(slug="third"))
        with pytest.raises(CourseError, match=r"2\.1/third lacks the solution"):
            find(load(root), "all")


def test_unknown_ids(course: Course) -> None:
    with pytest.raises(CourseError, match=r"there is no chapter 2\.22; did you mean 2\.2"):
        course.chapter("2.22")
    with pytest.raises(CourseError, match=r"there is no exercise 'rooflines' in 2\.1; did you mean roofline"):
        course.exercise("2.1/rooflines")
    with pytest.raises(CourseError, match="there is no track 'sort'; did you mean short"):
        course.track("sort")
    with pytest.raises(CourseError, match=r"1\.2 Matrices is not built yet"):
        course.page("1.2")
