"""The charts of the report, as Vega-Lite by altair. They take the color of the text, so that they
suit a dark page too.
"""

import math

import numpy as np

from ..._words import thousandths
from ..axes import PALETTE
from ..runs import from_zero

BAND = 50  # pixels of a kernel: its name above its bars, so that long names fit on a telephone
LONGEST = 2.0  # bar of all others, in lengths of the longest bar of one
LEFT = {"align": "left", "baseline": "middle"}
NARROW = "windowSize()[0] < 600 ? 80 : 180"  # pixels for names beside a chart
WIDTH = "min(windowSize()[0], 960)"  # of the page
WIDEST = 520  # pixels of a unit square
CELL = PALETTE[0]
NEAR = 10.0  # standard errors below the best score that are shown


def altair():
    """The altair package, or an error that says how to get it."""
    try:
        import altair as alt
    except ImportError as error:
        raise ImportError("The report needs altair: install it, or manykernels[report].") from error
    return alt


def bars(rows):
    """Shares of kernels or groups: a bar for the weight, and a pale one for the part in the
    decision where it is known.
    """
    alt = altair()
    values, known = _bar_values(rows), rows[0].contribution is not None
    top = 1.15 * max(max(value["share"], value["part"]) for value in values)
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("place:O", axis=None), color=alt.Color("color:N", scale=None)
    )
    scale = alt.Scale(domain=[0, top], nice=False)
    layers = [
        base.mark_text(**LEFT, dy=-14, limit={"expr": "width"}).encode(
            x=alt.value(0), text="name:N", color=_ink(alt)
        )
    ]
    for field, words, place, opacity in (
        ("share", "weight", 0, 1.0),
        ("part", "decision", 11, 0.4),
    )[: 1 + known]:
        x = alt.X(f"{field}:Q", axis=_axis(alt, None, format="~%", tickCount=5), scale=scale)
        bar = base.mark_bar(height=8, yOffset=place, opacity=opacity, cornerRadiusEnd=2).encode(x=x)
        label = base.mark_text(**LEFT, dx=5, dy=place, fontSize=11, opacity=0.8)
        layers += [bar, label.encode(x=x, text=f"{words}:N", color=_ink(alt))]
    return _dressed(alt.layer(*layers), (BAND if known else BAND - 8) * len(rows))


def drops(bars, colors):
    """Drops of a score, (group, drop, interval or None), with names above the bars."""
    alt = altair()
    values = [
        {
            "place": place,
            "name": name,
            "drop": float(drop),
            "low": float(drop if ends is None else ends[0]),
            "high": float(drop if ends is None else ends[1]),
            "words": thousandths(drop),
            "color": color,
        }
        for place, ((name, drop, ends), color) in enumerate(zip(bars, colors, strict=True))
    ]
    low = min(0.0, *(value["low"] for value in values))
    high = max(0.0, *(value["high"] for value in values))
    scale = alt.Scale(domain=[low, low + 1.15 * (high - low)], nice=False)
    title = "drop of the score at held-out rows"
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("place:O", axis=None), color=alt.Color("color:N", scale=None)
    )
    x = alt.X("drop:Q", axis=_axis(alt, title, tickCount=5), scale=scale)
    ink = {"color": _ink(alt)}
    names = base.mark_text(**LEFT, dy=-14, limit={"expr": "width"})
    line = base.mark_rule(strokeWidth=1.5, yOffset=2)
    ends = alt.X("high:Q", scale=scale)
    label = base.mark_text(**LEFT, dx=6, dy=2, fontSize=11, opacity=0.8)
    layers = [
        names.encode(x=alt.value(0), text="name:N", **ink),
        base.mark_bar(height=9, yOffset=2, cornerRadiusEnd=2).encode(x=x),
        line.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", **ink),
        label.encode(x=ends, text="words:N", **ink),
    ]
    return _dressed(alt.layer(*layers), (BAND - 8) * len(bars))


def swarms(columns, title):
    """What columns add at some rows, (name, values, shades between zero and one or NaN), a line of
    marks for each with its name above.
    """
    alt = altair()
    values = [
        {"place": place, "value": float(value), "shade": None if shade != shade else float(shade)}
        for place, (_, row, shades) in enumerate(columns)
        for value, shade in zip(row, shades, strict=True)
    ]
    names = [{"place": place, "name": name} for place, (name, _, _) in enumerate(columns)]
    y = alt.Y("place:O", axis=None)
    words = {"title": "value of the column", "labelExpr": "datum.value > 0.5 ? 'high' : 'low'"}
    quiet = {"titleColor": "currentColor", "titleFontWeight": "normal", "gradientLength": 120}
    legend = alt.Legend(orient="top", values=[0, 1], **words, **quiet)
    scale = alt.Scale(domain=[0, 1], range=list(PALETTE[:2]), interpolate="rgb")
    marks = alt.Chart(alt.Data(values=values)).mark_tick(height=11, thickness=2, opacity=0.6)
    marks = marks.encode(
        x=alt.X("value:Q", axis=_axis(alt, title, tickCount=6)),
        y=y,
        color=alt.Color("shade:Q", scale=scale, legend=legend),
    )
    words = alt.Chart(alt.Data(values=names)).mark_text(**LEFT, dy=-14, limit={"expr": "width"})
    words = words.encode(x=alt.value(0), y=y, text="name:N", color=_ink(alt))
    return _dressed(alt.layer(marks, words), (BAND - 8) * len(columns))


def curves(lines, titles, diagonal):
    """Lines of classes in the unit square, (name, x, y), with axes of these titles; a dashed line
    where guessing is, if it is the diagonal.
    """
    alt, names = altair(), [name for name, _, _ in lines]
    values = [
        {"curve": name, "x": float(a), "y": float(b), "order": place}
        for name, *both in lines
        for place, (a, b) in enumerate(zip(*both, strict=True))
    ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    across = alt.X("x:Q", scale=scale, axis=_axis(alt, titles[0], format="~%", tickCount=5))
    up = alt.Y("y:Q", scale=scale, axis=_axis(alt, titles[1], format="~%", tickCount=5))
    colors = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    color = alt.Color("curve:N", scale=colors, legend=_legend(alt, names, WIDEST))
    base = alt.Chart(alt.Data(values=values)).encode(x=across, y=up)
    layers = [base.mark_line(strokeWidth=2).encode(color=color, order="order:Q")]
    if diagonal:
        line = alt.Chart(alt.Data(values=[{"x": end, "y": end} for end in (0.0, 1.0)]))
        dashed = line.mark_line(color="currentColor", opacity=0.5, strokeDash=[4, 4])
        layers.append(dashed.encode(x=across, y=up))
    return _dressed(alt.layer(*layers), 300)


def is_cut(rows):
    """Whether the bar of all others would leave the rest too short; it is cut then, its number is
    not.
    """
    return any(row.share > _longest(rows) for row in rows if row.stands_for)


def _longest(rows):
    """Length that no bar exceeds."""
    single = [max(row.share, row.contribution or 0.0) for row in rows if not row.stands_for]
    return LONGEST * max(single, default=1.0)


def _bar_values(rows):
    longest = _longest(rows)
    return [
        {
            "place": place,
            "name": row.name,
            "share": min(row.share, longest),
            "part": min(row.contribution or 0.0, longest),
            "weight": row.weight,
            "decision": row.decision,
            "color": row.color,
        }
        for place, row in enumerate(rows)
    ]


def _ink(alt):
    return alt.value("currentColor")


def cells(rows, outputs):
    """Shares of the kernels in every output that has its own weights."""
    alt = altair()
    values = [
        {
            "place": place,
            "name": row.name,
            "output": output,
            "share": float(share),
            "words": _rounded(share),
        }
        for place, row in enumerate(rows)
        for output, share in zip(outputs, row.shares, strict=True)
    ]
    x = alt.X(
        "output:N",
        sort=list(outputs),
        axis=_axis(alt, None, grid=False, orient="top", labelLimit=_room(len(outputs))),
    )
    y = alt.Y("place:O", axis=None)  # not by name, since two kernels may have the same
    strongest = max(value["share"] for value in values)
    grid = _grid(alt, values, x, y, len(outputs), strongest, height={"band": 0.5})
    names = alt.Chart(alt.Data(values=values[:: len(outputs)])).mark_text(
        **LEFT, dy=-19, limit={"expr": "width"}
    )
    return _dressed(
        alt.layer(*grid, names.encode(y=y, x=alt.value(0), text="name:N", color=_ink(alt))),
        BAND * len(rows),
    )


def _rounded(share):
    return f"{share:.0%}" if share >= 0.005 else ""


def _room(count):
    """Pixels for the name of one of some columns."""
    return {"expr": f"0.9 * {WIDTH} / {count}"}


def confusion(counts, classes):
    """How many points of every class were put into every class, shaded by the share of the true
    class.
    """
    alt, names = altair(), [str(name) for name in classes]
    totals = np.maximum(counts.sum(axis=1), 1)
    values = [
        {
            "true": names[i],
            "predicted": names[j],
            "share": float(n / totals[i]),
            "words": str(n) if n else "",
        }
        for (i, j), n in np.ndenumerate(counts)
    ]
    y = alt.Y(
        "true:N", sort=names, axis=_axis(alt, "true class", labelLimit={"expr": NARROW}, grid=False)
    )
    x = alt.X(
        "predicted:N",
        sort=names,
        axis=_axis(alt, "predicted class", labelLimit=_room(len(names) + 1), grid=False),
    )
    side = max(24, min(64, 420 // len(names)))
    return _dressed(alt.layer(*_grid(alt, values, x, y, len(names), 1.0)), side * len(names))


def _grid(alt, values, x, y, columns, strongest, **size):
    """Cells shaded by their share, and their numbers if there is room for so many columns."""
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    # the opacity stays low enough for the number to be read on top of it
    strength = alt.Opacity(
        "share:Q", scale=alt.Scale(domain=[0, strongest], range=[0.06, 0.75]), legend=None
    )
    cells = base.mark_rect(color=CELL, cornerRadius=2, **size).encode(opacity=strength)
    needed = 8 + 7 * max(len(value["words"]) for value in values)
    fits = {"expr": f"width / {columns} > {needed} ? 1 : 0"}
    return [cells, base.mark_text(color="currentColor", opacity=fits).encode(text="words:N")]


def gaps(runs, tol):
    """Relative duality gap against time, the best so far, and the tolerance."""
    alt = altair()
    values = _lines(
        runs,
        lambda run: np.where(np.isfinite(run.best_gaps), np.maximum(run.best_gaps, 1e-16), np.nan),
    )
    smallest = min([tol, *(value["value"] for value in values)])
    axis = _axis(
        alt,
        "relative duality gap",
        format="~%" if smallest > 1e-7 else "~e",
        values=_powers(smallest, 1.0),
    )
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), axis=axis)
    rule = alt.Chart(alt.Data(values=[{"value": tol, "words": "tolerance"}])).encode(y=y)
    marks = [rule.mark_rule(strokeDash=[4, 4], color="currentColor", opacity=0.5)]
    marks += [
        rule.mark_text(align="left", dx=4, dy=-7, color="currentColor", opacity=0.6).encode(
            x=alt.value(0), text="words:N"
        )
    ]
    return _dressed(alt.layer(*_steps(alt, values, y, runs), *marks), 240)


def objectives(runs):
    """The objective against time."""
    alt = altair()
    values = _lines(runs, lambda run: run.objectives)
    low, high = (end(value["value"] for value in values) for end in (min, max))
    # the first steps may be so far off that the last ones could not be told apart
    logarithmic = low > 0 and high > 20 * low
    scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
    ticks = {"values": _powers(low, high)} if logarithmic else {"tickCount": 5}
    y = alt.Y("value:Q", scale=scale, axis=_axis(alt, "objective", **ticks))
    return _dressed(alt.layer(*_steps(alt, values, y, runs)), 200)


def _powers(low, high):
    """Some eight powers of ten at most, for a logarithmic axis; its own ticks would come with a
    grid for each digit.
    """
    powers = [
        10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ]
    return powers[:: -(-len(powers) // 8)]


def _lines(runs, pick):
    return [
        {"run": run.name, "seconds": float(x), "value": float(value)}
        for run in runs
        for x, value in zip(run.seconds, pick(run), strict=True)
        if math.isfinite(value)
    ]


def _steps(alt, values, y, runs):
    names = [run.name for run in runs]
    legend = _legend(alt, names) if 1 < len(runs) <= len(PALETTE) else None
    range_ = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    color = alt.Color("run:N", scale=alt.Scale(domain=names, range=range_), legend=legend)
    span = alt.Scale(zero=from_zero(runs, "seconds"), nice=False)
    x = alt.X("seconds:Q", axis=_axis(alt, "seconds", tickCount=6), scale=span)
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, color=color)
    return [
        base.mark_line(interpolate="step-after", strokeWidth=2),
        base.mark_point(filled=True, size=18, opacity=0.9),
    ]


def surface(scores):
    """Mean scores against C, a line with standard errors for every p; a ring around the chosen."""
    alt, names = altair(), [f"p = {norm:g}".replace("inf", "∞") for norm in scores.norms]
    values = [
        {
            "C": float(cost),
            "norm": names[j],
            "score": float(scores.means[i, j]),
            "low": float(scores.means[i, j] - scores.errors[i, j]),
            "high": float(scores.means[i, j] + scores.errors[i, j]),
            "chosen": (i, j) == tuple(scores.chosen),
        }
        for i, cost in enumerate(scores.costs)
        for j in range(len(names))
        if math.isfinite(scores.means[i, j])
    ]
    ticks = _powers(min(scores.costs), max(scores.costs))
    x = alt.X("C:Q", scale=alt.Scale(type="log", nice=False), axis=_axis(alt, "C", values=ticks))
    # what is far below the best would leave no room for what is not
    best, error = scores.means[scores.chosen], scores.errors[scores.chosen]
    bottom = max(min(value["low"] for value in values), best - max(NEAR * error, 0.05 * abs(best)))
    top = max(value["high"] for value in values)
    scale = alt.Scale(zero=False, nice=False, domain=[float(bottom), float(top)])
    y = alt.Y("score:Q", scale=scale, axis=_axis(alt, "mean score on held-out folds", tickCount=6))
    colors = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    color = alt.Color("norm:N", scale=colors, legend=_legend(alt, names))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, color=color)
    ring = base.transform_filter("datum.chosen").mark_point(
        size=220, strokeWidth=2, filled=False, color="currentColor"
    )
    layers = [
        base.mark_rule(opacity=0.45, clip=True).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=2, clip=True).encode(y=y),
        base.mark_point(filled=True, size=26, clip=True).encode(y=y),
        ring.encode(y=y, color=_ink(alt)),
    ]
    return _dressed(alt.layer(*layers), 280)


def reliability(said, found, counts, of):
    """How often a class, named in words, came true where a probability was said; on the line is
    right.
    """
    alt = altair()
    values = [
        {"said": float(a), "found": float(b), "points": int(n)}
        for a, b, n in zip(said, found, counts, strict=True)
    ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("said:Q", scale=scale, axis=_axis(alt, f"predicted probability of {of}", format="~%"))
    y = alt.Y("found:Q", scale=scale, axis=_axis(alt, "how often it was so", format="~%"))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    line = alt.Chart(alt.Data(values=[{"said": 0.0, "found": 0.0}, {"said": 1.0, "found": 1.0}]))
    line = line.mark_line(color="currentColor", opacity=0.5, strokeDash=[4, 4]).encode(x=x, y=y)
    size = alt.Size("points:Q", legend=None, scale=alt.Scale(range=[30, 250]))
    marks = [
        base.mark_line(color=CELL, strokeWidth=2),
        base.mark_point(filled=True, color=CELL, opacity=0.9).encode(size=size),
    ]
    return _dressed(alt.layer(line, *marks), 300)


def scatter(true, predicted, names):
    """Predicted against true values, one color per target; the line is where they agree."""
    alt = altair()
    values = [
        {"target": name, "true": float(a), "predicted": float(b)}
        for name, *columns in zip(names, true.T, predicted.T, strict=True)
        for a, b in zip(*columns, strict=True)
    ]
    low, high = (
        float(end) for end in (min(true.min(), predicted.min()), max(true.max(), predicted.max()))
    )
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    legend = _legend(alt, names) if len(names) > 1 else None
    color = alt.Color(
        "target:N", scale=alt.Scale(domain=list(names), range=list(PALETTE)), legend=legend
    )
    points = alt.Chart(alt.Data(values=values)).mark_point(filled=True, size=22, opacity=0.55)
    x, y = (
        alt.X("true:Q", scale=scale, axis=_axis(alt, "true value", tickCount=6)),
        alt.Y("predicted:Q", scale=scale),
    )
    y = y.axis(_axis(alt, "predicted value", tickCount=6))
    line = alt.Chart(alt.Data(values=[{"true": end, "predicted": end} for end in (low, high)]))
    line = line.mark_line(color="currentColor", opacity=0.5, strokeDash=[4, 4]).encode(x=x, y=y)
    return _dressed(alt.layer(points.encode(x=x, y=y, color=color), line), 340)


def histogram(scores, title, bins=40):
    """How often values occur; the line is at zero."""
    alt = altair()
    counts, edges = np.histogram(scores, bins=min(bins, max(5, int(math.sqrt(scores.size) * 2))))
    pairs = zip(edges[:-1], edges[1:], counts, strict=True)
    values = [{"from": float(a), "to": float(b), "count": int(n)} for a, b, n in pairs]
    x = alt.X(
        "from:Q", bin="binned", axis=_axis(alt, title, tickCount=7), scale=alt.Scale(zero=False)
    )
    base = alt.Chart(alt.Data(values=values)).mark_bar(color=CELL, opacity=0.8)
    base = base.encode(x=x, x2="to:Q", y=alt.Y("count:Q", axis=_axis(alt, "points", tickCount=5)))
    zero = (
        alt.Chart(alt.Data(values=[{"from": 0.0}]))
        .mark_rule(color="currentColor", strokeDash=[4, 4])
        .encode(x="from:Q")
    )
    return _dressed(alt.layer(base, zero), 220)


def _legend(alt, names, widest=960):
    room = 30 + 8 * max(map(len, names))
    columns = f"max(1, floor((min({WIDTH}, {widest}) - 60) / {room}))"
    return alt.Legend(title=None, orient="top", columns={"expr": columns})


def _axis(alt, title, **options):
    return alt.Axis(title=title, **options)


def _dressed(chart, height):
    quiet = {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "gridColor": "currentColor",
        "gridOpacity": 0.12,
    }
    quiet |= {
        "labelOpacity": 0.75,
        "titleOpacity": 0.75,
        "titleFontWeight": "normal",
        "domain": False,
        "ticks": False,
    }
    return chart.properties(width="container", height=height, background="transparent").configure(
        font="system-ui, 'Segoe UI', 'Liberation Sans', sans-serif",
        aria=False,  # the place of the chart says what it shows, and a table has the numbers
        axis=quiet | {"labelPadding": 6, "labelFontSize": 12, "titleFontSize": 12, "labelAngle": 0},
        legend={"labelColor": "currentColor", "labelFontSize": 12, "symbolType": "circle"},
        text={"fontSize": 12.5},
        view={"stroke": None},
    )
