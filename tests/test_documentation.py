"""Every Python block of the documentation runs."""

import re
import runpy
from pathlib import Path

import matplotlib
import pytest

from manykernels.solvers import AUTO

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("[ac]*/*.md")),  # algorithms, coming_from; _build is none of ours
]
BLOCKS = [
    (page, block)
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(
            page,
            block,
            id=f"{page.relative_to(ROOT).with_suffix('')}-{place}",
            # its package is installed by `make test-all` alone
            marks=pytest.mark.long if "grakel" in block else (),
        )
        for place, (page, block) in enumerate(BLOCKS)
    ],
)
def test_block_runs(page, block, tmp_path, monkeypatch):
    if "onnxruntime" in block:
        pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    exec(compile(block, str(page), "exec"), {"__name__": "__main__"})


def test_the_examples_of_own_parts_are_short():
    blocks = [block for page, block in BLOCKS if page.name == "extending.md"]
    assert len(blocks) == 3
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) < 40


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
    for name in re.findall(r"python -m benchmarks (\w+)", page.read_text()):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name


@pytest.mark.parametrize("form", ["", "_narrow"])
def test_the_flowchart_of_solvers_is_the_table(form):
    picture = (ROOT / "docs" / "_static" / f"flow_solver{form}.svg").read_text()
    named = re.findall(r'class="code"[^>]*>&quot;(\w+)&quot;<', picture)
    assert named == [rule.solver for rule in AUTO]


def test_the_flowcharts_are_those_of_their_script():
    charts = runpy.run_path(str(ROOT / "docs" / "flowcharts.py"))
    for name, content in charts["files"]():
        assert (ROOT / "docs" / "_static" / name).read_text(encoding="utf-8") == content, name
