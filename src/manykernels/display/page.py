"""Pieces of the report's page, from the elements of `manykernels._html`."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

from .._html import Markup, element, table

__all__ = ["Charts", "element", "facts", "folded", "page", "section", "table"]


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
    scripts = [_inline(_vega()), _inline(_ours("report.js"))] if charts.specs else []
    # only these very scripts may run, and nothing may be fetched
    allowed = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in scripts
    )
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed or chr(39) + 'none' + chr(39)}; img-src data:"
    data = json.dumps(charts.specs, separators=(",", ":")).replace("<", "\\u003c")
    head = [
        Markup(
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        ),
        Markup(
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'
        ),
        element("title", title),
        element("style", Markup(_ours("report.css"))),
    ]
    body = [
        element("main", *parts),
        Markup(f'<script type="application/json" id="charts">{data}</script>'),
    ]
    body += [Markup(f"<script>{code}</script>") for code in scripts]
    return f"<!doctype html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def _inline(code):
    """Code that does not end the element which it stands in."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


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
