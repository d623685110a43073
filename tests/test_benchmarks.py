"""The harness of the benchmarks, and that the page of results is made of the records."""

import ast
import importlib

import numpy as np
import pytest

pytest.importorskip("benchmarks", reason="the benchmarks are in the checkout, not in the package")

from benchmarks import common
from benchmarks.__main__ import NO_BENCHMARKS
from benchmarks.harness import plan, records
from benchmarks.report import figures, write
from benchmarks.report.found import Found
from benchmarks.report.markdown import number, pieces, table
from benchmarks.report.ranks import ranks

MODULES = sorted(path.stem for path in records.BENCHMARKS.glob("*.py"))


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
    assert set(plan.ORDER) == set(MODULES) - set(NO_BENCHMARKS) - {"__init__"}
    assert all(plan.parts(name) for name in plan.ORDER)


@pytest.mark.parametrize("name", sorted(set(plan.ORDER) - {"gpu", "gpu_lowrank"}))
def test_what_a_quick_run_makes_small_is_there(name):
    found = assigned(name)
    small = {key.value for key in found["QUICK"].keys}
    assert small <= found.keys() - {"QUICK", "STEPS"}


class TestRecords:
    @pytest.fixture
    def job(self, tmp_path, monkeypatch):
        monkeypatch.setattr(records, "RESULTS", tmp_path)
        return records.Job("shape", "package", "quick")

    def record(self, job, **changes):
        known = {"benchmark": job.benchmark, "part": job.part, "size": job.size, "key": job.key}
        known |= {"commit": "", "date": "", "status": "done", "rows": [{"a": 1}]}
        return records.Record(**known | changes)

    def test_one_of_these_files_is_not_made_again(self, job):
        assert not records.is_current(job)
        self.record(job).save()
        assert records.is_current(job)
        assert "| 1 |" in job.path.with_suffix(".md").read_text()

    @pytest.mark.parametrize("changes", [{"key": "of other files"}, {"status": "failed"}])
    def test_others_are(self, job, changes):
        self.record(job, **changes).save()
        assert not records.is_current(job)

    def test_keys_differ_by_size_and_part(self):
        keys = {records.Job("small", part, size).key for part in "ab" for size in ("quick", "full")}
        assert len(keys) == 4

    def test_keys_see_code_and_not_words(self, tmp_path):
        one, two, other = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
        one.write_text('"""Words."""\nx = 1  # more\nQUICK = {}\n')
        two.write_text("x=1;QUICK = {}")
        other.write_text("x = 1")
        assert records.code(one, "quick") == records.code(two, "quick")
        assert records.code(one, "quick") != records.code(other, "quick")
        assert records.code(one, "full") == records.code(other, "full")


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
