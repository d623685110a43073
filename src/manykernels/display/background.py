"""The sections of the report on what came before the fit and what it cost: data, formulation, work."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from .._words import megabytes, number, percent, seconds
from .page import element, facts, section, table

PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "numba", "pandas", "altair")


def _distinct(model, bank, points):
    """How many of the training points differ, where the bank has all of them and not only support
    vectors, as from a file.
    """
    whole = model.decision_.has_training_points
    return f"{bank.n:,}" if whole and bank.n < points else None


def data_section(story):
    """Sizes: points, features, classes, groups."""
    model, bank = story.model, story.model.bank_
    points = model.decision_.n_fit
    pairs = [
        ("training points", None if points is None else f"{points:,}"),
        ("distinct points", _distinct(model, bank, points)),
        (
            "support vectors",
            _of(np.size(model.support_), points) if hasattr(model, "support_") else None,
        ),
        ("features", f"{model.n_features_in_:,}"),
        ("kernels" if story.is_sum else "weights", f"{story.shares.m:,}"),
        ("classes", _listed(model.classes_) if hasattr(model, "classes_") else None),
        (
            "targets",
            len(model.intercept_)
            if not hasattr(model, "classes_") and len(model.intercept_) > 1
            else None,
        ),
    ]
    groups, features = story.shares.groups(), _features_of_groups(bank)
    parts = [facts(pairs)]
    if groups:
        head = ["group", "kernels", *(["features"] if features else [])]
        sizes = {name: f"{size:,}" if size else "all" for name, size in features.items()}
        rows = [
            [g.name, f"{g.count:,}", *([sizes.get(g.name, "")] if features else [])] for g in groups
        ]
        parts.append(table(head, rows))
    return section("The data", *parts)


def _of(part, whole):
    return f"{part:,}" if not whole else f"{part:,} ({percent(part / whole)})"


def _listed(labels, most=8):
    words = ", ".join(str(label) for label in labels[:most])
    return f"{len(labels)} ({words}{', …' if len(labels) > most else ''})"


def _features_of_groups(bank):
    """How many features the kernels of every group see together (None for all); empty where it is
    not known.
    """
    if not (bank.is_sum and any(bank.groups)):
        return {}
    seen = {}
    for k, group in enumerate(bank.groups):
        seen.setdefault(group or "no group", []).append(bank.columns_of(k))
    whole = {group: any(columns is None for columns in some) for group, some in seen.items()}
    return {
        group: None if whole[group] else np.unique(np.concatenate(some)).size
        for group, some in seen.items()
    }


def formulation_section(story):
    """What was optimized, and with which parameters."""
    model = story.model
    regularizer, p = getattr(model, "regularizer", None), getattr(model, "p", None)
    pairs = [
        ("combination", _short(model.combination)),
        ("regularizer", _short(regularizer) if regularizer is not None else None),
        ("norm of the weights, p", None if regularizer is not None else _norm(model, p)),
        ("cost of an error, C", _value(model, "C")),
        ("share outside, ν", _value(model, "nu")),
        (
            "loss",
            _short(model.loss)
            if hasattr(model, "loss")
            else "one-class"
            if hasattr(model, "nu")
            else None,
        ),
        (
            "free error, ε",
            _value(model, "epsilon")
            if getattr(model, "loss", None) == "epsilon_insensitive"
            else None,
        ),
        (
            "class weights",
            None if getattr(model, "class_weight", None) is None else _short(model.class_weight),
        ),
        (
            "kernel weights",
            ("shared" if model.share_weights else "per class")
            if len(model.intercept_) > 1 and hasattr(model, "multiclass")
            else None,
        ),
        ("several classes", model.multiclass if len(getattr(model, "classes_", ())) > 2 else None),
        ("solver", _short(model.solver)),
        ("kernels normalized by", (model.normalize or "nothing") if story.is_sum else None),
        ("approximation", None if model.approximation is None else _short(model.approximation)),
    ]
    parts = [facts(pairs)]
    if hasattr(model, "p_scores_"):
        rows = [
            [number(norm), f"{value:.4f}", "chosen" if norm == model.p_ else ""]
            for norm, value in model.p_scores_.items()
        ]
        parts += [
            element("h3", "How p was chosen"),
            table(["p", "mean score on held-out folds", ""], rows),
        ]
    return section("What was optimized", *parts)


def _norm(model, p):
    if p == "auto":
        return f"{number(model.p_)} (chosen on held-out folds)" if hasattr(model, "p_") else "auto"
    words = {1.0: " (few kernels)", float("inf"): " (plain sum)"}
    return f"{number(p)}{words.get(p, '')}"


def _value(model, name):
    return number(getattr(model, name)) if hasattr(model, name) else None


def _short(value, longest=80):
    words = str(value)
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def work_section(story):
    """What the fit cost, and what it ran with."""
    result = story.result
    counters, peak = getattr(result, "counters", None), peak_memory()
    pairs = [("peak memory of this process", None if peak is None else megabytes(peak))]
    if counters is not None:
        pairs = [
            ("time to train", seconds(counters.seconds)),
            ("iterations", number(result.n_iter)),
            ("SVM problems solved", number(counters.svm_solves)),
            ("passes over all kernels", number(counters.kernel_passes)),
            ("steps inside the SVMs", number(counters.machine_steps)),
            *pairs,
        ]
    system = [
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
    ]
    return section(
        "Work and versions", facts(pairs), facts([*_versions(), *system, ("cores", os.cpu_count())])
    )


def _versions():
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:  # optional, or a checkout that was not installed
            if name == "manykernels":
                yield name, sys.modules["manykernels"].__version__


def peak_memory():
    """Bytes that this process has held at most so far; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
