"""What a command prints: tables for people, one JSON object for programs."""

import json
import math

import numpy as np

SHOWN = 5  # kernels in the table
LISTED = 100  # kernels in the JSON object


def print_json(contents):
    """One object on the standard output; what is not finite is null."""
    print(json.dumps(_plain(contents), allow_nan=False), flush=True)


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (np.generic, np.ndarray)):
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
    weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    order = np.argsort(-weights, kind="stable")[:most]
    names = estimator.kernel_names_
    return [(names[k], float(weights[k])) for k in order.tolist() if weights[k] > 0]


def described(estimator):
    """The outcome of a run, as a mapping."""
    result = estimator.result_
    return {
        "status": result.status.name,
        "message": result.status.value,
        "converged": result.status.converged,
        "objective": float(result.objective),
        "duality_gap": float(result.duality_gap),
        "iterations": int(result.n_iter),
        "resumed_after": None if result.resumed is None else int(result.resumed.iteration),
        "n_kernels": int(result.weights.shape[-1]),
        "n_kernels_used": int(np.count_nonzero(np.atleast_2d(result.weights).any(axis=0))),
        "kernels": [
            {"name": name, "weight": weight} for name, weight in heaviest(estimator, LISTED)
        ],
    }


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


def _scores(outcome):
    measure = outcome["measure"]
    for name, value in outcome["scores"].items():
        if isinstance(value, list):
            yield (
                f"{measure}, {name}",
                f"{np.mean(value):.4f} ± {np.std(value):.4f} ({len(value)} folds)",
            )
        else:
            yield f"{measure}, {name}", f"{value:.4f}"
