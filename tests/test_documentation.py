"""Every Python block of the documentation runs."""

import hashlib
import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import matplotlib
import pytest

from manykernels.solvers import AUTO

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("[acr]*/*.md")),  # algorithms, coming_from, recipes; not _build
]
# a block, and what the page says that it prints
BLOCKS = [
    (page, block, printed)
    for page in PAGES
    for block, printed in re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page.read_text("utf-8"), re.DOTALL
    )
]
NUMBER = re.compile(r"-?\d+(?:\.\d*)?")


@pytest.mark.parametrize(
    ("page", "block", "printed"),
    [
        pytest.param(
            page,
            block,
            printed,
            id=f"{page.relative_to(ROOT).with_suffix('')}-{place}",
            # its package is installed by `make test-all` alone
            marks=pytest.mark.long if "grakel" in block else (),
        )
        for place, (page, block, printed) in enumerate(BLOCKS)
    ],
)
def test_block_runs(page, block, printed, tmp_path, monkeypatch, capsys):
    if "onnxruntime" in block:
        pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    if re.search(r"\breport\(", block):
        pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    exec(compile(block, str(page), "exec"), {"__name__": "__main__"})
    if printed:
        assert_alike(capsys.readouterr().out, printed)


def assert_alike(found, shown):
    """The same words and numbers but for spaces, and numbers to a hundredth, since results are
    proven to a thousandth of their objective and may differ between machines.
    """
    # machines differ in their cores
    texts = [re.sub(r"\d+ threads?", "threads", text) for text in (found, shown)]
    words = [" ".join(NUMBER.sub("#", text).split()).replace("[ ", "[") for text in texts]
    assert words[0] == words[1]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in texts]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0101)


def test_recipes_are_short_and_say_what_they_print():
    recipes = [rest for page, *rest in BLOCKS if page.parent.name == "recipes"]
    assert len(recipes) >= 16
    for block, printed in recipes:
        assert len([line for line in block.splitlines() if line.strip()]) <= 10
        assert max(map(len, block.splitlines())) <= 100
        assert printed, f"python docs/outputs.py writes what this prints:\n{block}"


def test_the_examples_of_own_parts_are_short():
    blocks = [block for page, block, _ in BLOCKS if page.name == "extending.md"]
    assert len(blocks) == 3
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) < 40


CASE = ROOT / "examples" / "case_digits.py"


def test_the_case_shows_its_script_and_what_that_printed():
    page = (ROOT / "docs" / "case.md").read_text("utf-8")
    made_by, _, printed = (ROOT / "docs" / "case_output.txt").read_text("utf-8").partition("\n")
    digest = hashlib.sha256(CASE.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    assert made_by == f"{CASE.relative_to(ROOT).as_posix()} {digest}", (
        "python examples/case_digits.py --record prints anew what docs/case.md shows"
    )
    script = CASE.read_text("utf-8")
    shown = re.findall(r"```(\{code-block\} python|text)\n(.*?)```", page, re.DOTALL)
    assert len(shown) >= 16
    for kind, block in shown:
        if kind == "text":
            assert f"\n{block}" in f"\n{printed}", block
        else:
            assert textwrap.indent(block, "    ") in script, block


@pytest.mark.long
def test_the_case_still_finds_what_is_recorded():
    """Its accuracies, but for three digits of 160."""
    run = subprocess.run([sys.executable, CASE], check=True, capture_output=True, encoding="utf-8")
    recorded = (ROOT / "docs" / "case_output.txt").read_text("utf-8")
    line = re.compile(r"^(?:  |accuracy without )(\D+?) +(0\.\d{3})$", re.MULTILINE)
    found, kept = dict(line.findall(run.stdout)), dict(line.findall(recorded))
    assert found.keys() == kept.keys()
    assert len(kept) >= 9
    for name, accuracy in kept.items():
        assert float(found[name]) == pytest.approx(float(accuracy), abs=0.02), name


GALLERY = sorted((ROOT / "examples" / "gallery").glob("*/plot_*.py"))


def test_the_gallery_has_enough_pictures():
    assert len(GALLERY) >= 12
    for script in GALLERY:
        assert script.read_text().rstrip().endswith("plt.show()"), script.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    """Those between pages; pages of the gallery are made when the site is."""
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        target = target.replace("\n", "")
        if "gallery/" in target and target.endswith(".rst"):
            made = target.split("gallery/")[1].removesuffix(".rst")
            assert made == "index" or (ROOT / "examples" / "gallery" / f"{made}.py").exists()
        else:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_benchmarks_that_are_named_are_there(page):
    named = r"python -m benchmarks (\w+)((?:\s+--\w+(?:\s+[a-z_]\w*)?)*)"
    for name, options in re.findall(named, page.read_text("utf-8")):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name
        for part in re.findall(r"--part\s+(\w+)", options):
            assert part in parts_of(name), f"{name} has no part {part}"


def parts_of(name):
    """Names in the table that a benchmark gives to `run_parts`."""
    module = importlib.import_module(f"benchmarks.{name}")
    if isinstance(getattr(module, "STEPS", None), dict):
        return set(module.STEPS)
    return set(re.findall(r'"(\w+)":', inspect.getsource(module.main)))


def test_what_is_claimed_has_the_record_that_is_named():
    page = (ROOT / "docs" / "believe.md").read_text("utf-8")
    claimed = re.findall(r"(\d+) (s|min)\b[^`(]*\(`(\w+)/([\w-]+)`\)", page)
    assert len(claimed) >= 9
    for number, unit, size, name in claimed:
        folder = ROOT / "benchmarks" / "results" / size
        records = [folder / f"{name}.json"]
        if not records[0].exists():
            records = sorted(folder.glob(f"{name}-*.json"))  # its pieces
        took = sum(json.loads(path.read_text())["seconds"] for path in records)
        seconds = int(number) * (60 if unit == "min" else 1)
        assert 2 / 3 * took <= seconds <= 3 / 2 * took, f"{name}: {took} s"


def test_losses_that_are_quoted_are_in_the_results():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    page = (ROOT / "docs" / "believe.md").read_text("utf-8")
    quoted = re.findall(r"^> (.+)$", page, re.MULTILINE)
    assert len(quoted) >= 4
    for line in quoted:
        assert line in results, f"docs/believe.md quotes what is no longer in RESULTS.md: {line}"


@pytest.mark.parametrize("form", ["", "_narrow"])
def test_the_flowchart_of_solvers_is_the_table(form):
    picture = (ROOT / "docs" / "_static" / f"flow_solver{form}.svg").read_text()
    named = re.findall(r'class="code"[^>]*>&quot;(\w+)&quot;<', picture)
    assert named == [rule.solver for rule in AUTO]


def test_the_flowcharts_are_those_of_their_script():
    charts = runpy.run_path(str(ROOT / "docs" / "flowcharts.py"))
    for name, content in charts["files"]():
        assert (ROOT / "docs" / "_static" / name).read_text(encoding="utf-8") == content, name
