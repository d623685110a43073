"""Every Python block of the documentation runs."""

import re
from pathlib import Path

import matplotlib
import pytest

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
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    exec(compile(block, str(page), "exec"), {"__name__": "__main__"})


def test_the_examples_of_own_parts_are_short():
    blocks = [block for page, block in BLOCKS if page.name == "extending.md"]
    assert len(blocks) == 3
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) < 40
