"""Writes what the Python of the recipes prints below every block: ``python docs/outputs.py``."""

import contextlib
import io
import re
from pathlib import Path

PAGES = sorted((Path(__file__).parent / "recipes").glob("*.md"))
BLOCK = re.compile(r"(```python\n(.*?)```\n)(?:\n```text\n.*?```\n)?", re.DOTALL)


def with_outputs(page):
    """The text of a page, with what every block prints now."""

    def run(found):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found[2], str(page), "exec"), {"__name__": "__main__"})
        return f"{found[1]}\n```text\n{printed.getvalue()}```\n"

    return BLOCK.sub(run, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_outputs(page), encoding="utf-8")
