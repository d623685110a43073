"""Draws the flowcharts of docs/which.md: ``python docs/flowcharts.py``.

A chart is a chain of questions. Where there is room the answer stands beside its question, on a
telephone below it; colors are those of the theme, by the classes of `_static/site.css`.
"""

from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

FOLDER = Path(__file__).parent / "_static"
LINE = 18  # from one line of text to the next


class Step(NamedTuple):
    """A question, and what to take if the answer is yes: code, and words on it."""

    question: list[str]
    code: str
    words: str


class Chart(NamedTuple):
    """Questions in order, and what to take if all answers are no."""

    title: str
    steps: list[Step]
    code: str
    words: str


CHARTS = {
    "estimator": Chart(
        "Which estimator: a chain of questions about the targets",
        [
            Step(
                ["Do you only want to know", "which columns to keep?"],
                "MKLFeatureSelector",
                "products of Gaussians, before any other model",
            ),
            Step(
                ["Are there no targets:", "is it about what is unlike the rest?"],
                "MKLOneClass",
                "novelties and outliers",
            ),
            Step(
                ["Are the targets numbers?"],
                "MKLRegressor, MKLRegressorCV",
                "the second chooses C and p on held-out folds",
            ),
            Step(
                ["Classes, and you want C and p chosen,", "or probabilities that are calibrated?"],
                "MKLClassifierCV",
                "folds share the kernels: one call",
            ),
            Step(
                ["Classes and log-odds, one fit?"],
                'MKLClassifier(loss="logistic")',
                "probabilities of the loss itself",
            ),
        ],
        "MKLClassifier()",
        "C = 1, p = 1: few kernels",
    ),
    "size": Chart(
        "Exact or low rank, and on which device: a chain of questions about the size",
        [
            Step(
                ["Is the combined kernel not a sum", '(combination="product", or your own)?'],
                "approximation=None",
                'exact; of these a GPU takes "product" only',
            ),
            Step(
                ["Fewer than some ten thousand points?"],
                "MKLClassifier(...)",
                "exact, on the CPU: seconds",
            ),
            Step(
                ["Is there a GPU?"],
                'device="cuda"',
                "exact up to half a million points",
            ),
            Step(
                ["Fewer than some hundred thousand", "points, and time to wait?"],
                "MKLClassifier(...)",
                "exact: weights come from a sample of points first",
            ),
            Step(
                ["Many gene sets or other groups", "of columns, and p = 1?"],
                "approximation=RandomFourier(100)",
                "one group at a time, within cache_size",
            ),
        ],
        "approximation=Nystroem(200)",
        "raise the rank until the score stays",
    ),
    "solver": Chart(
        'Which solver solver="auto" takes: the first line that fits',
        [
            Step(['loss="hard_margin"?'], '"mwu"', "MWUMKL, multiplicative weights"),
            Step(
                ["Low rank, p = 1, many sets of columns,", "or 10 points per feature at most?"],
                '"blocks"',
                "one kernel at a time, while that is quickest",
            ),
            Step(
                ["Low rank, and the points are on", "other machines (a cluster)?"],
                '"distributed"',
                "Newton in rounds (squared, logistic)",
            ),
            Step(
                ["Low rank, factors narrower than half the", "points, loss without corners?"],
                '"primal"',
                "Newton on the factors (squared, logistic)",
            ),
            Step(
                ["The same with hinge or ε-insensitive,", "36 points per column, on the CPU?"],
                '"multipliers"',
                "Newton on rounded corners, again and again",
            ),
            Step(
                ["The same with fewer points?"],
                '"interior"',
                "primal-dual interior points",
            ),
            Step(
                ["p-norm or KL, and a combined kernel", "fits into memory?"],
                '"newton"',
                "Newton on the dual: the usual answer",
            ),
            Step(
                ["Is the combined kernel not a sum, such", "as a product?"],
                '"quasi_newton"',
                "projected quasi-Newton descent",
            ),
            Step(
                ["Squared 1-norm, or steep mixed norms?"],
                '"group_lasso"',
                "MKLGL: SVM, closed-form weights, again",
            ),
        ],
        '"spg"',
        "SPG-GMKL: everything else",
    ),
}


def text(x, middle, lines, code=None):
    """Lines of text around a height, the first of them code."""
    rows = [("code", code)] * (code is not None) + [("", line) for line in lines]
    top = middle - (len(rows) - 1) * LINE / 2 + 5
    for place, (kind, line) in enumerate(rows):
        kind = f'class="{kind}" ' if kind else ""
        yield f'<text {kind}x="{x}" y="{top + place * LINE:g}">{escape(line)}</text>'


def box(kind, x, y, width, height):
    corner = 10 if kind == "ask" else 6
    size = f'width="{width}" height="{height}" rx="{corner}"'
    return f'<rect class="{kind}" x="{x}" y="{y}" {size}/>'


def arrow(path, word, at):
    """A line, its tip where the path ends (to the right, or down), and a word."""
    (x, y), down = path[-1], path[-2][0] == path[-1][0]
    tip = "l-5 -9 h10 z" if down else "l-9 -5 v10 z"
    points = " L".join(f"{a:g} {b:g}" for a, b in path)
    yield f'<path class="line" d="M{points}"/><path class="tip" d="M{x:g} {y:g} {tip}"/>'
    yield f'<text class="word" x="{at[0]:g}" y="{at[1]:g}">{word}</text>'


def beside(chart):
    """Answers to the right of their questions."""
    height, gap, width, right, y = 62, 26, 330, 420, 10
    for step in chart.steps:
        middle, below = y + height / 2, y + height
        yield box("ask", 4, y, width, height)
        yield from text(20, middle, step.question)
        yield from arrow([(width + 4, middle), (right - 1, middle)], "yes", (358, middle - 7))
        yield box("take", right, y, 400, height)
        yield from text(right + 16, middle, wrap(step.words, 50), step.code)
        yield from arrow([(90, below), (90, below + gap - 1)], "no", (100, below + gap / 2 + 5))
        y += height + gap
    yield box("take", 4, y, width, height)
    yield from text(20, y + height / 2, [chart.words], chart.code)


def below(chart):
    """Answers below their questions, and the way on along the left edge."""
    question, answer, gap, width, left, y = 58, 66, 30, 360, 68, 6
    for step in chart.steps:
        end, middle = y + question, y + question + 14 + answer / 2
        after = end + 14 + answer + gap
        yield box("ask", 4, y, width, question)
        yield from text(20, y + question / 2, step.question)
        yield from arrow([(32, end), (32, middle), (left - 1, middle)], "yes", (37, middle - 6))
        yield box("take", left, end + 14, width + 4 - left, answer)
        yield from text(left + 12, middle, wrap(step.words, 36), step.code)
        yield from arrow([(12, end), (12, after - 1)], "no", (22, after - gap / 2 + 5))
        y = after
    yield box("take", 4, y, width, answer - 4)
    yield from text(20, y + answer / 2 - 2, [chart.words], chart.code)


def drawn(name, layout, width, height):
    """The text of an SVG file."""
    chart, label = CHARTS[name], f"{name}-{layout.__name__}"
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{label}" '
            'xmlns="http://www.w3.org/2000/svg">',
            f'<title id="{label}">{escape(chart.title)}</title>',
            *layout(chart),
            "</svg>\n",
        ]
    )


def files():
    """Name and text of every file."""
    for name, chart in CHARTS.items():
        steps = len(chart.steps)
        yield f"flow_{name}.svg", drawn(name, beside, 830, 88 * (steps + 1) - 10)
        yield f"flow_{name}_narrow.svg", drawn(name, below, 368, 168 * steps + 72)


if __name__ == "__main__":
    for name, content in files():
        (FOLDER / name).write_text(content, encoding="utf-8")
