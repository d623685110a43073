"""Pieces of HTML. Every text is escaped here, so that no name of a kernel or class can be more than
a name.
"""

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files


class Markup(str):
    """HTML that was made here; every other string is text."""

    __slots__ = ()


def text(value):
    """HTML for any value: itself if it was made here, else escaped."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def element(tag, *parts, **attributes):
    """``<tag attributes>parts</tag>``; ``class_`` is written class, ``aria_label`` aria-label."""
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
    )
    return Markup(f"<{tag}{words}>{''.join(map(text, parts))}</{tag}>")


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


def table(head, rows, numeric_from=1):
    """A table; the columns from `numeric_from` on hold numbers and are set flush right."""
    align = [{} if place < numeric_from else {"class_": "number"} for place in range(len(head))]
    heads = [element("th", word, scope="col", **how) for word, how in zip(head, align, strict=True)]
    lines = [
        element("tr", *[element("td", cell, **how) for cell, how in zip(row, align, strict=True)])
        for row in rows
    ]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    return element("div", whole, class_="scroll", tabindex="0")


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
