"""The charts of the report, as Vega-Lite by altair. They take the colour of the text, so that they suit a dark page too."""

import math

import numpy as np

from .axes import OTHERS, PALETTE, colour_of
from .words import percent

BAND = 40  # pixels of a kernel: its name above its bar, so that long names fit on a telephone
LEFT = {"align": "left", "baseline": "middle"}
NARROW = "windowSize()[0] < 600 ? 110 : 260"  # pixels for names beside a chart
CELL = PALETTE[0]


def altair():
    """The altair package, or an error that says how to get it."""
    try:
        import altair as alt
    except ImportError as error:
        raise ImportError("The report needs altair: install it, or manykernels[report].") from error
    return alt


def bars(rows):
    """Shares of kernels or groups: a bar for the weight, a tick for the part in the decision where it is known."""
    alt, colours = altair(), colour_of(row.group for row in rows)
    # a million others together may outweigh the heaviest kernel by far; their bar is cut, not their number
    longest = max([max(row.share, row.contribution or 0.0) for row in rows if row.count == 1 or row.group] or [1.0]) or 1.0
    values = [
        {
            "place": place,
            "name": row.name,
            "share": min(row.share, 2.0 * longest),
            "end": min(max(row.share, row.contribution or 0.0), 2.0 * longest),
            "words": percent(row.share),
            "colour": colours[row.group] if row.group or row.count == 1 else OTHERS,
            "tip": f"{row.name}: {percent(row.share)} of the weight",
        }
        | ({} if row.contribution is None else {"part": min(row.contribution, 2.0 * longest)})
        for place, row in enumerate(rows)
    ]
    top = 1.15 * max(value["end"] for value in values)
    base = alt.Chart(alt.Data(values=values)).encode(y=alt.Y("place:O", axis=None))
    x = alt.X("share:Q", axis=_axis(alt, None, format="~%", tickCount=5), scale=alt.Scale(domain=[0, top], nice=False))
    layers = [
        base.mark_bar(height=11, yOffset=8, cornerRadiusEnd=2).encode(
            x=x, color=alt.Color("colour:N", scale=None), tooltip=alt.Tooltip("tip:N", title="kernel")
        ),
        base.mark_text(**LEFT, dx=5, dy=8, color="currentColor", opacity=0.75).encode(x="end:Q", text="words:N"),
        base.mark_text(**LEFT, dy=-8, color="currentColor", limit={"expr": "width"}).encode(x=alt.value(0), text="name:N"),
    ]
    if any("part" in value for value in values):
        layers.insert(
            1, base.mark_tick(orient="vertical", height=19, thickness=2, yOffset=8, color="currentColor").encode(x="part:Q")
        )
    return _dressed(alt.layer(*layers), BAND * len(rows))


def cells(rows, outputs):
    """Shares of the kernels in every output that has its own weights."""
    alt = altair()
    values = [
        {"name": row.name, "output": output, "share": float(share), "words": f"{share:.0%}" if share >= 0.005 else ""}
        for row in rows
        for output, share in zip(outputs, row.shares, strict=True)
    ]
    names = [row.name for row in rows]
    y = alt.Y("name:N", sort=names, axis=_axis(alt, None, labelLimit={"expr": NARROW}, grid=False))
    x = alt.X("output:N", sort=list(outputs), axis=_axis(alt, None, grid=False, orient="top", labelLimit=90))
    return _grid(alt, values, x, y, "share", numbers=len(outputs) <= 12, height=24 * len(rows))


def confusion(counts, classes):
    """How many points of every class were put into every class, shaded by the share of the true class."""
    alt, names = altair(), [str(name) for name in classes]
    totals = np.maximum(counts.sum(axis=1), 1)
    values = [
        {"true": names[i], "predicted": names[j], "share": float(n / totals[i]), "words": str(n) if n else ""}
        for (i, j), n in np.ndenumerate(counts)
    ]
    axis = {"labelLimit": {"expr": "windowSize()[0] < 600 ? 70 : 160"}, "grid": False}
    y = alt.Y("true:N", sort=names, axis=_axis(alt, "true class", **axis))
    x = alt.X("predicted:N", sort=names, axis=_axis(alt, "predicted class", **axis))
    side = max(24, min(64, 420 // len(names)))
    return _grid(alt, values, x, y, "share", numbers=len(names) <= 15, height=side * len(names))


def _grid(alt, values, x, y, shade, numbers, height):
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    # the opacity stays low enough for the number to be read on top of it
    strength = alt.Opacity(f"{shade}:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.75]), legend=None)
    layers = [base.mark_rect(color=CELL, cornerRadius=2, stroke=None).encode(opacity=strength)]
    if numbers:
        layers.append(base.mark_text(color="currentColor").encode(text="words:N"))
    return _dressed(alt.layer(*layers), height)


def gaps(runs, tol):
    """Relative duality gap against time, the best so far, and the tolerance."""
    alt = altair()
    values = _lines(runs, lambda run: np.where(np.isfinite(run.best_gaps), np.maximum(run.best_gaps, 1e-16), np.nan))
    smallest = min([tol, *(value["value"] for value in values)])
    powers = [10.0**power for power in range(math.floor(math.log10(smallest)), 1)]
    powers = powers[:: -(-len(powers) // 8)]
    axis = _axis(alt, "relative duality gap", format="~%" if smallest > 1e-7 else "~e", values=powers)
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), axis=axis)
    rule = alt.Chart(alt.Data(values=[{"value": tol, "words": "tolerance"}])).encode(y=y)
    marks = [rule.mark_rule(strokeDash=[4, 4], color="currentColor", opacity=0.5)]
    marks += [
        rule.mark_text(align="left", dx=4, dy=-7, color="currentColor", opacity=0.6).encode(x=alt.value(0), text="words:N")
    ]
    return _dressed(alt.layer(*_steps(alt, values, y, runs), *marks), 240)


def objectives(runs):
    """The objective against time."""
    alt = altair()
    values = _lines(runs, lambda run: run.objectives)
    low, high = (end(value["value"] for value in values) for end in (min, max))
    # the first steps may be so far off that the last ones could not be told apart
    scale = alt.Scale(type="log") if low > 0 and high > 20 * low else alt.Scale(zero=False)
    y = alt.Y("value:Q", scale=scale, axis=_axis(alt, "objective", tickCount=5, format="~s"))
    return _dressed(alt.layer(*_steps(alt, values, y, runs)), 200)


def _lines(runs, pick):
    return [
        {"run": run.name, "seconds": float(x), "value": float(value)}
        for run in runs
        for x, value in zip(run.seconds, pick(run), strict=True)
        if math.isfinite(value)
    ]


def _steps(alt, values, y, runs):
    names = [run.name for run in runs]
    legend = alt.Legend(title=None, orient="top", columns=4) if 1 < len(runs) <= len(PALETTE) else None
    range_ = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    colour = alt.Color("run:N", scale=alt.Scale(domain=names, range=range_), legend=legend)
    x = alt.X("seconds:Q", axis=_axis(alt, "seconds", tickCount=6), scale=alt.Scale(zero=True))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, color=colour)
    return [base.mark_line(interpolate="step-after", strokeWidth=2), base.mark_point(filled=True, size=18, opacity=0.9)]


def scatter(true, predicted, names):
    """Predicted against true values, one colour per target; the line is where they agree."""
    alt = altair()
    values = [
        {"target": name, "true": float(a), "predicted": float(b)}
        for name, *columns in zip(names, true.T, predicted.T, strict=True)
        for a, b in zip(*columns, strict=True)
    ]
    low, high = (float(end) for end in (min(true.min(), predicted.min()), max(true.max(), predicted.max())))
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    legend = alt.Legend(title=None, orient="top", columns=4) if len(names) > 1 else None
    colour = alt.Color("target:N", scale=alt.Scale(domain=list(names), range=list(PALETTE)), legend=legend)
    points = alt.Chart(alt.Data(values=values)).mark_point(filled=True, size=22, opacity=0.55)
    x, y = (alt.X("true:Q", scale=scale, axis=_axis(alt, "true value", tickCount=6)), alt.Y("predicted:Q", scale=scale))
    y = y.axis(_axis(alt, "predicted value", tickCount=6))
    line = alt.Chart(alt.Data(values=[{"true": end, "predicted": end} for end in (low, high)]))
    line = line.mark_line(color="currentColor", opacity=0.5, strokeDash=[4, 4]).encode(x=x, y=y)
    return _dressed(alt.layer(points.encode(x=x, y=y, color=colour), line), 340)


def histogram(scores, title, bins=40):
    """How often values occur; the line is at zero."""
    alt = altair()
    counts, edges = np.histogram(scores, bins=min(bins, max(5, int(math.sqrt(scores.size) * 2))))
    pairs = zip(edges[:-1], edges[1:], counts, strict=True)
    values = [{"from": float(a), "to": float(b), "count": int(n)} for a, b, n in pairs]
    x = alt.X("from:Q", axis=_axis(alt, title, tickCount=7), scale=alt.Scale(zero=False))
    base = alt.Chart(alt.Data(values=values)).mark_bar(color=CELL, opacity=0.8)
    base = base.encode(x=x, x2="to:Q", y=alt.Y("count:Q", axis=_axis(alt, "points", tickCount=5)))
    zero = alt.Chart(alt.Data(values=[{"from": 0.0}])).mark_rule(color="currentColor", strokeDash=[4, 4]).encode(x=x)
    return _dressed(alt.layer(base, zero), 220)


def _axis(alt, title, **options):
    return alt.Axis(title=title, **options)


def _dressed(chart, height):
    quiet = {"labelColor": "currentColor", "titleColor": "currentColor", "gridColor": "currentColor", "gridOpacity": 0.12}
    quiet |= {"labelOpacity": 0.75, "titleOpacity": 0.75, "titleFontWeight": "normal", "domain": False, "ticks": False}
    return chart.properties(width="container", height=height, background="transparent").configure(
        font="system-ui, 'Segoe UI', 'Liberation Sans', sans-serif",
        aria=False,  # the place of the chart says what it shows, and a table has the numbers
        axis=quiet | {"labelPadding": 6, "labelFontSize": 12, "titleFontSize": 12, "labelAngle": 0},
        legend={"labelColor": "currentColor", "labelFontSize": 12, "symbolType": "circle"},
        text={"fontSize": 12.5},
        view={"stroke": None},
    )
