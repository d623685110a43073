"""What a command prints and how it ends: tables for people, one JSON object for programs, errors as
one line, exit codes, Ctrl-C and SIGTERM.

Every command imports this file, also to show its help, so it imports nothing that takes long.
"""

import functools
import inspect
import json
import math
import os
import signal
import sys
import warnings
from statistics import fmean, stdev
from typing import Annotated

import typer

from ._signals import BROKEN_PIPE, Signals

FINE, WRONG, NOT_CONVERGED, INTERRUPTED, TERMINATED = 0, 1, 3, 130, 143
SHOWN = 5  # kernels in the table
LISTED = 100  # kernels in the JSON object
EXPECTED = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
    NotImplementedError,
    FloatingPointError,
)

Debug = Annotated[
    bool, typer.Option("--debug", help="Show where an error comes from.", rich_help_panel="Output")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object, and nothing else on the standard output.",
        rich_help_panel="Output",
    ),
]


def ends_well(command):
    """The command with an option ``--debug``, its errors on one line, and the exit code that it
    returns.
    """

    @functools.wraps(command)
    def run(*, debug, **options):
        with Signals() as signals, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                code = command(**options) or FINE
            except KeyboardInterrupt as interruption:  # its text says what was written
                code = _interrupted(signals, *interruption.args)
            except (typer.Exit, typer.BadParameter):
                raise
            # whoever reads has had enough, as in "manykernels predict … | head"
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                code = BROKEN_PIPE
            except Exception as error:
                if debug:
                    raise
                # an import that is interrupted may fail with an error of its own
                if signals.came is not None and isinstance(error, ImportError):
                    code = _interrupted(signals)
                else:
                    note(f"error: {_one_line(error)}")
                    code = WRONG
        raise typer.Exit(code)

    signature = inspect.signature(command)
    parameter = inspect.Parameter(
        "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug
    )
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), parameter])
    run.__annotations__ = {**command.__annotations__, "debug": Debug}
    return run


def _interrupted(signals, words="the command was not done."):
    """Say so, and return the exit code."""
    note(f"interrupted: {words}")
    return TERMINATED if signals.came == signal.SIGTERM else INTERRUPTED


def note(text):
    """Print a line on the standard error."""
    print(text, file=sys.stderr, flush=True)


def _one_line(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return (
        text
        if isinstance(error, EXPECTED)
        else f"{type(error).__name__}: {text} (--debug shows where)"
    )


def _show_warning(message, category, *_, **__):
    """A warning as one line; that a run did not converge is said in its summary."""
    if category.__name__ != "ConvergenceWarning":
        note(f"warning: {' '.join(str(message).split())}")


def print_json(contents):
    """One object on the standard output; numbers that are not finite are null."""
    print(json.dumps(_plain(contents), allow_nan=False), flush=True)


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(title, rows, columns=None):
    """Rows of text as a table on the standard output."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=columns is not None,
        pad_edge=False,
    )
    for name, value in zip(columns or [""] * len(rows[0]), rows[0], strict=True):
        table.add_column(
            name, justify="left" if isinstance(value, str) else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(_cell, row))
    Console().print(table)


def _cell(value):
    from rich.markup import escape

    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def heaviest(estimator, most):
    """Names and weights (means over outputs that have their own) of the heaviest kernels, heaviest
    first.
    """
    import numpy as np

    weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    order = np.argsort(-weights, kind="stable")[:most]
    names = estimator.kernel_names_
    return [(names[k], float(weights[k])) for k in order.tolist() if weights[k] > 0]


def described(estimator):
    """The outcome of a run, as a mapping."""
    result = estimator.result_
    used = result.weights.reshape(-1, result.weights.shape[-1]).any(axis=0)
    return {
        "status": result.status.name,
        "message": result.message,
        "converged": result.status.converged,
        "objective": float(result.objective),
        "duality_gap": float(result.duality_gap),
        "iterations": int(result.n_iter),
        "resumed_after": None if result.resumed is None else int(result.resumed.iteration),
        "n_kernels": int(result.weights.shape[-1]),
        "n_kernels_used": int(used.sum()),
        "kernels": [
            {"name": name, "weight": weight} for name, weight in heaviest(estimator, LISTED)
        ],
        "tuned": _tuned(estimator),
    }


def _tuned(estimator):
    """What was chosen on held-out folds, and its scores there; None where nothing was."""
    if not hasattr(estimator, "best_index_"):
        return None
    cost, norm = estimator.best_index_
    scores = estimator.scores_[:, cost, norm]
    p = "inf" if math.isinf(estimator.p_) else estimator.p_  # JSON has no such number
    return {"C": estimator.C_, "p": p, "scores": [float(score) for score in scores]}


def print_training(outcome):
    """The table that ends ``train``."""
    data, best = outcome["data"], outcome["kernels"][:SHOWN]
    rows = [
        (
            "data",
            f"{data['rows']} rows, {data['features']} features"
            + (", standardized" if data["standardized"] else ""),
        ),
        (
            "task",
            outcome["task"] + (f", {len(data['classes'])} classes" if data["classes"] else ""),
        ),
        ("status", f"{outcome['status']}: {outcome['message']}"),
        *_choice(outcome["tuned"]),
        ("objective", f"{outcome['objective']:.6g}"),
        (
            "duality gap",
            "none"
            if math.isinf(outcome["duality_gap"])
            else f"{outcome['duality_gap']:.2g} (relative)",
        ),
        *(
            [("resumed", f"after {outcome['resumed_after']} iterations")]
            if outcome["resumed_after"] is not None
            else []
        ),
        (
            "kernels",
            f"{outcome['n_kernels_used']} of {outcome['n_kernels']} used; the heaviest, with "
            "their weights:",
        ),
        *((f"{weight['weight']:.4g}".rjust(10), weight["name"]) for weight in best),
        *((name, text) for name, text in _scores(outcome)),
        ("seconds", f"{outcome['seconds']:.2f}"),
        ("model", outcome["model"]),
    ]
    print_table(None, rows)


def _choice(tuned):
    if tuned is not None:
        words = f"C = {tuned['C']:.4g}, p = {float(tuned['p']):g}"
        yield "chosen", f"{words}; {_of_folds(tuned['scores'])}"


def _scores(outcome):
    """Every measure at every place, beside what answers without features get."""
    for place, measures in outcome["measures"].items():
        for name, value in measures.items():
            constant = outcome["without_features"][place][name]
            if isinstance(value, list):
                text, constant = _of_folds(value), fmean(constant)
            else:
                text = f"{value:.4f}"
            yield f"{name}, {place}", f"{text}; {constant:.4f} for {_constant_answer(name)}"


def _constant_answer(measure):
    if "accuracy" in measure:
        return "the commonest class alone"
    answers = {"area under the ROC curve": "chance", "Brier score": "the shares of the classes"}
    return answers.get(measure, "the mean of the targets")


def _of_folds(scores):
    """Mean and standard error of the scores of held-out folds, as the report has them; folds that
    were not reached have no number.
    """
    scores = [score for score in scores if not math.isnan(score)]
    if len(scores) < 2:
        return f"{scores[0]:.4f} on one held-out fold" if scores else "no held-out fold"
    error = stdev(scores) / math.sqrt(len(scores))
    return f"{fmean(scores):.4f} ± {error:.4f} (standard error, {len(scores)} held-out folds)"
