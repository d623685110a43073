"""The harness of the benchmarks, and that the page of results is made of the records."""

import ast
import hashlib
import importlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("benchmarks", reason="the benchmarks are in the checkout, not in the package")

from benchmarks import common
from benchmarks.harness import __main__ as harness
from benchmarks.harness import keep as keeping
from benchmarks.harness import plan, records
from benchmarks.report import figures, write
from benchmarks.report.found import Found
from benchmarks.report.markdown import number, pieces, table
from benchmarks.report.ranks import ranks


def assigned(name):
    """Names that a module of the benchmarks assigns, and the value of one of them as it is
    written.
    """
    body = ast.parse((records.BENCHMARKS / f"{name}.py").read_text()).body
    found = {}
    for node in body:
        for target in getattr(node, "targets", ()):
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                found[ast.unparse(one)] = node.value
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: None for one in node.names}
    return found


def test_the_page_is_what_the_records_give(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "panels", lambda name, *_, **__: _noted(name, drawn))
    assert write.TARGET.read_text() == write.text(Found.here())
    assert all((figures.FOLDER / f"{name}.svg").exists() for name in drawn)


def _noted(name, drawn):
    drawn.append(name)
    return f"![{name}](figures/{name}.svg)\n"


def test_every_benchmark_is_part_of_the_run():
    assert set(plan.ORDER) == {name for name in plan.MODULES if "STEPS" in assigned(name)}
    assert all(plan.parts(name) for name in plan.ORDER)


@pytest.mark.parametrize("name", sorted(plan.ORDER))
def test_what_a_quick_run_makes_small_is_there(name):
    found = assigned(name)
    small = {key.value for key in found["QUICK"].keys}
    assert small <= found.keys() - {"QUICK", "STEPS"}


@pytest.mark.parametrize("name", sorted(plan.ORDER))
def test_tables_of_the_plan_name_parts(name):
    found, parts = assigned(name), set(plan.parts(name))
    for which in ("SPLIT", "NEEDS", "GUESSED"):
        if which in found:
            assert set(ast.literal_eval(found[which])) <= parts | {""}
    cut = [part for part in parts if plan.split_by(name, part)]
    assert all(len(set(plan.pieces(name, part))) > 1 for part in cut)


def test_every_job_has_a_file_of_its_own():
    paths = [job.path for job in plan.jobs("full")]
    assert len(set(paths)) == len(paths)


def test_no_job_is_guessed_to_take_longer_than_it_may():
    assert all(plan.expected(job) <= plan.LIMIT["full"] for job in plan.jobs("full"))


class TestQueue:
    @pytest.fixture
    def jobs(self, monkeypatch):
        """Three jobs of 10, 30 and 20 s, of which the last two need the GPU."""
        seconds = {"a": 10.0, "b": 30.0, "c": 20.0}
        monkeypatch.setattr(harness, "expected", lambda job: seconds[job.part])
        monkeypatch.setattr(harness, "on_gpu", lambda job: job.part != "a")
        return [records.Job("shape", part, "full") for part in seconds]

    def taken(self, queue):
        job = queue.take()
        return job and job.part

    def test_one_after_the_other_in_their_order(self, jobs):
        queue = harness.Queue(jobs)
        for part in "abc":
            job = queue.take()
            assert job.part == part
            queue.done(job)
        assert queue.take() is None

    def test_the_longest_first_and_one_at_a_time_on_the_gpu(self, jobs):
        queue = harness.Queue(jobs, longest_first=True)
        first = queue.take()
        assert first.part == "b"
        assert self.taken(queue) == "a"
        assert queue.take() is None
        queue.done(first)
        assert self.taken(queue) == "c"

    def test_what_does_not_fit_into_the_time_is_left(self, jobs):
        queue = harness.Queue(jobs, minutes=25 / 60, longest_first=True)
        assert queue.limit(jobs[0]) <= 25.0
        assert self.taken(queue) == "c"
        assert self.taken(queue) == "a"
        assert [job.part for job in queue.jobs] == ["b"]

    def test_what_goes_on_another_time_begins_last(self, jobs, monkeypatch):
        monkeypatch.setattr(harness, "expected", lambda job: {"a": 10.0}.get(job.part, 1000.0))
        monkeypatch.setattr(harness, "goes_on", lambda job: job.part == "c")
        queue = harness.Queue(jobs, minutes=3, longest_first=True)
        assert self.taken(queue) == "a"
        assert self.taken(queue) == "c"
        assert self.taken(queue) is None


def test_a_job_that_was_ended_says_what_it_had(tmp_path):
    assert "nothing" in harness.made(tmp_path / "none")
    path = tmp_path / "some"
    path.write_text('{"label": "a9a 2", "value": 1}\n')
    assert "finished (1): a9a 2; all else is missing" in harness.made(path)
    path.write_text("".join(f'{{"label": "row {n}", "value": 1}}\n' for n in range(99)))
    assert "finished (99): row 0, row 1" in harness.made(path)
    assert harness.made(path).endswith(", …; all else is missing")


def test_needs_that_are_not_here_are_named(monkeypatch):
    monkeypatch.setattr(plan, "is_here", lambda need, size=None: need != "covtype.npz")
    assert plan.why_not(records.Job("products", "covertype", "full")) == "needs covtype.npz"
    assert plan.why_not(records.Job("products", "letter", "full")) is None


def test_data_and_variables_that_are_not_here(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "DATA", tmp_path)
    monkeypatch.setenv("MANYKERNELS_THERE", "1")
    (tmp_path / "here.npz").touch()
    is_here = plan.is_here.__wrapped__
    assert is_here("here.npz")
    assert not is_here("gone.npz")
    assert is_here("$MANYKERNELS_THERE")
    assert not is_here("$MANYKERNELS_GONE")
    assert not is_here("no_such_package")


def test_a_piece_is_one_value_of_a_constant():
    job = importlib.import_module("benchmarks.harness.job")
    module = SimpleNamespace(SETS=("a", "b"), ROWS={500: 1, 1000: 2})
    job.narrow(module, "SETS", "b")
    job.narrow(module, "ROWS", "500")
    assert module.SETS == ("b",)
    assert module.ROWS == {500: 1}


class TestRecords:
    @pytest.fixture
    def job(self, tmp_path, monkeypatch):
        monkeypatch.setattr(records, "RESULTS", tmp_path)
        monkeypatch.setattr(
            records, "package_digest", lambda modules=None: ""
        )  # of hundreds of files
        return records.Job("shape", "package", "quick")

    def record(self, job, **changes):
        known = {"benchmark": job.benchmark, "part": job.part, "size": job.size, "key": job.key}
        known |= {"commit": "", "date": "", "status": "done", "rows": [{"a": 1}]}
        known |= {"machine": {"processor": "", "cores": 2}}
        return records.Record(**known | changes)

    def test_one_of_these_files_is_fresh(self, job):
        assert records.state(job) == "missing"
        self.record(job).save()
        assert records.state(job) == "fresh"
        assert "| 1 |" in job.path.with_suffix(".md").read_text()

    @pytest.mark.parametrize(
        ("changes", "state"),
        [
            ({"key": "of other files"}, "stale"),
            ({"status": "failed"}, "failed"),
            ({"status": "cut"}, "cut"),
            ({"status": "skipped"}, "skipped"),
        ],
    )
    def test_others_are_not(self, job, changes, state):
        self.record(job, **changes).save()
        assert records.state(job) == state

    def test_figures_are_not_replaced_by_none(self, job):
        self.record(job, key="of other files").save()
        self.record(job, status="skipped", rows=None).save()
        assert records.load(job).rows == [{"a": 1}]

    def test_a_page_without_records_says_what_is_missing(self, job):
        text = write.text(Found.here())
        assert "Not said here" in text
        assert "* gpu-covertype" in text

    def test_pieces_are_one_table_and_the_others_are_named(self, job):
        for piece in ("sonar", "liver"):
            one = records.Job("smo", "norms", "full", piece)
            self.record(one, piece=piece, rows=[{"set": piece}]).save()
        self.record(records.Job("smo", "norms", "full"), rows=[{"set": "of before"}]).save()
        found = Found.here()
        assert {row["set"] for row in found.full("smo-norms")} == {"sonar", "liver"}
        assert found.lacking("smo-norms") == ["smo-norms, australian", "smo-norms, ionosphere"]

    def test_pieces_take_as_long_as_others_did(self, job):
        sonar, liver = (records.Job("smo", "norms", "full", piece) for piece in ("sonar", "liver"))
        self.record(records.Job("smo", "norms", "full"), seconds=400.0).save()
        assert plan.expected(liver) == 100.0
        self.record(sonar, piece="sonar", seconds=30.0).save()
        assert plan.expected(liver) == 30.0
        self.record(liver, piece="liver", seconds=5.0).save()
        assert plan.expected(liver) == 5.0

    def test_skipped_is_no_result(self, job):
        self.record(job, status="skipped", reason="needs a GPU", rows=None).save()
        found = Found.here()
        assert found.rows("shape-package") == []
        assert found.lacking("shape-package") == ["shape-package (needs a GPU)"]

    def test_new_parts_are_shown_without_a_section(self, job):
        full = records.Job("shape", "package", "full")
        self.record(full, rows=[{"surprise": 42}]).save()
        assert "| surprise |" in write.text(Found.here())

    def test_keys_differ_by_size_and_part(self, job):
        keys = {records.Job("small", part, size).key for part in "ab" for size in ("quick", "full")}
        assert len(keys) == 4

    def test_keys_are_of_the_modules_that_were_loaded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(records, "RESULTS", tmp_path)
        monkeypatch.setattr(records, "PACKAGE", tmp_path / "package")
        for name, body in (("a", "x = 1"), ("inner/b", "y = 1")):
            path = tmp_path / "package" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        job = records.Job("shape", "package", "quick")

        def states():
            for cached in (records.package_digest, records.package_files, records.code):
                cached.cache_clear()
            found = []
            for modules in ("a", "a inner/b"):
                self.record(job, key=keys[modules], modules=modules).save()
                found.append(records.state(job))
            return found

        keys = {modules: job.key_of(modules) for modules in ("a", "a inner/b")}
        assert states() == ["fresh", "fresh"]
        (tmp_path / "package" / "inner" / "b.py").write_text("y = 2")
        assert states() == ["fresh", "stale"]
        (tmp_path / "package" / "a.py").unlink()
        assert states() == ["stale", "stale"]

    def test_kept_for_a_reason(self, job, monkeypatch):
        other = records.Job("structure", "summary", "quick")
        modules = "problem estimators/calibration"
        for one in (job, other):
            self.record(one, benchmark=one.benchmark, part=one.part, key="", modules=modules).save()
        monkeypatch.setattr(keeping, "fresh_at", lambda *_: {str(job)})
        calibration = "src/manykernels/estimators/calibration.py"
        changed = [calibration, "src/manykernels/pieces.py", "benchmarks/shape.py"]
        monkeypatch.setattr(keeping, "named", lambda commit: commit)
        monkeypatch.setattr(keeping, "changed_since", lambda _: [*changed, "benchmarks/gpu.py"])
        keeping.keep([job, other], "abc", "it makes no probabilities.")
        assert [records.state(one) for one in (job, other)] == ["fresh", "stale"]
        said = f"{calibration}, benchmarks/shape.py changed after abc: it makes no probabilities."
        assert records.load(job).kept == said
        assert said in job.path.with_suffix(".md").read_text()

    def test_modules_of_a_process_that_worked_alone(self):
        asked = """if True:
            import subprocess, sys, manykernels.problem
            from benchmarks.harness.records import modules_loaded
            print("problem" in modules_loaded().split(), "cli/app" in modules_loaded().split())
            subprocess.run([sys.executable, "-c", "sum(range(10 ** 6))"])
            print(modules_loaded())
        """
        told = subprocess.run(
            [sys.executable, "-c", asked],
            cwd=records.CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.split() == ["True", "False", "None"]

    def test_keys_see_code_and_not_words(self, tmp_path):
        one, two, other = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
        one.write_text('"""Words."""\nx = 1  # more\nQUICK = {}\n')
        two.write_text("x=1;QUICK = {}")
        other.write_text("x = 1\nGUESSED = {}")
        assert records.code(one, "quick") == records.code(two, "quick")
        assert records.code(one, "quick") != records.code(other, "quick")
        assert records.code(one, "full") == records.code(other, "full")

    def test_keys_are_the_same_in_every_version_of_python(self, tmp_path):
        """What `ast` calls things is; what it writes of them is not."""
        path = tmp_path / "a.py"
        path.write_text("def f(x):\n    return f'{x!r:>{3}} y'\n")
        told = records.code(path, "full")
        assert hashlib.sha256(told.encode()).hexdigest()[:16] == "0eebdfb9fd333753"


def test_a_job_that_was_killed_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYKERNELS_PARTIAL", str(tmp_path / "partial"))
    calls = []
    for _ in range(2):
        assert common.once("a", lambda: calls.append(1) or {"x": 1.5}) == {"x": 1.5}
    assert len(calls) == 1
    assert common.once("b", lambda: 2) == 2


def test_jobs_keep_what_json_knows():
    job = importlib.import_module("benchmarks.harness.job")
    value = {1: (np.float32(0.5), np.int64(3), np.array([1.0, np.inf]), None, np.bool_(True))}
    assert job.plain(value) == {"1": [0.5, 3, [1.0, "inf"], None, True]}
    with pytest.raises(TypeError):
        job.plain(object())


class TestReport:
    def test_tables_have_all_columns(self):
        lines = table([{"paper: s": 785.5, "b": None}, {"c": True}]).splitlines()
        assert lines[0] == "| paper: s | b | c |"
        assert lines[2:] == ["| 785.5 |  |  |", "|  |  | yes |"]

    @pytest.mark.parametrize(
        ("value", "said"),
        [(0.0, "0"), (1234.567, "1,235"), (12.0, "12.0"), (1.23456, "1.23"), (3e-7, "3.0e-07")],
    )
    def test_numbers(self, value, said):
        assert number(value) == said

    def test_tables_inside_tables_are_found(self):
        found = dict(pieces({"a9a": {"rows": [{"n": 1}], "exponent": 2.0}, "all": [{"m": 2}]}))
        assert found["a9a, rows"] == [{"n": 1}]
        assert found["all"] == [{"m": 2}]

    def test_the_critical_difference_is_demsars(self):
        """Demšar (2006), section 3.2.4: four methods on fourteen sets, q of 2.569, 1.25."""
        scores = np.random.default_rng(0).random((14, 4))
        assert ranks("abcd", scores).critical == pytest.approx(1.25, abs=0.005)

    def test_ranks_and_their_groups(self):
        scores = np.tile([0.9, 0.9, 0.5, 0.1], (30, 1))
        found = ranks(["a", "b", "c", "d"], scores)
        assert found.means.tolist() == [1.5, 1.5, 3.0, 4.0]
        assert found.p_value < 1e-6
        assert found.cliques() == [["a", "b"]]
