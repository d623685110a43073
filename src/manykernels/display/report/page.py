"""The page: its pieces, and the whole file."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..._html import Markup, element


def section(title, *parts):
    """A part of the report with a heading."""
    return element("section", element("h2", title), *[part for part in parts if part])


def facts(pairs):
    """Names and values side by side; those without a value are left out."""
    rows = [
        element("div", element("dt", name), element("dd", value))
        for name, value in pairs
        if value is not None
    ]
    return element("dl", *rows)


def folded(summary, *parts):
    """Parts that are seen when they are asked for."""
    return element("details", element("summary", summary), *parts)


GIB = 2**30
ADDRESSES = 65 * GIB  # 64.3 were measured with vl-convert-python 1.9
_NOTHING = "'none'"


class Charts:
    """The charts of a page: their places in the text, and their descriptions for the end of it."""

    def __init__(self):
        self.specs = {}

    def place(self, chart, label, caption=None, widest=None):
        """The place of a chart; ``label`` says what it shows to those who do not see it, ``widest``
        is in pixels.
        """
        name = f"chart-{len(self.specs) + 1}"
        self.specs[name] = chart.to_dict()
        style = {} if widest is None else {"style": f"max-width: {widest}px"}
        space = element("div", id=name, class_="chart", role="img", aria_label=label, **style)
        return element("figure", space, *([element("figcaption", caption)] if caption else []))


def page(title, parts, charts):
    """The whole file: text, style, and one copy of the script that draws the charts; it asks the
    network for nothing.
    """
    scripts = [_inline(_vega()), _inline(_ours("page.js"))] if charts.specs else []
    data = json.dumps(charts.specs, separators=(",", ":")).replace("<", "\\u003c")
    body = [
        element("main", *parts),
        Markup(f'<script type="application/json" id="charts">{data}</script>'),
        *(Markup(f"<script>{code}</script>") for code in scripts),
    ]
    whole = element("html", _head(title, scripts), element("body", *body), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _head(title, scripts):
    """What browsers must know; only these very scripts may run, and nothing may be fetched."""
    allowed = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in scripts
    )
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {allowed or _NOTHING}"
    )
    fixed = (
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="icon" href="data:,">',
    )
    return element(
        "head",
        *map(Markup, fixed),
        element("title", title),
        element("style", Markup(_ours("page.css"))),
    )


def _inline(code):
    """Code that does not end the element which it stands in."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def check_room():
    """Raise if the engine within vl-convert could not start: it reserves so many addresses at once
    (not memory), and ends the process where a limit refuses them.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit - _taken(resource) < ADDRESSES:
        raise MemoryError(
            f"The report's charts need {ADDRESSES // GIB} GiB of addresses (not of memory), and "
            f"this process is limited to {limit / GIB:.1f} GiB: raise the limit (ulimit -v "
            "unlimited), or save the model and write its report from a process without one "
            "(manykernels report)."
        )


def _taken(resource):
    """Bytes of addresses that this process has, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * resource.getpagesize()


@cache
def _vega():
    """Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError(
            "The report needs vl-convert-python: install it, or manykernels[report]."
        ) from error
    return vl_convert.javascript_bundle()


def _ours(name):
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
