"""Sections on what came before the fit and what it cost: data, formulation, work."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from ..._html import element, table
from ..._words import megabytes, number, percent, seconds
from ...estimators.regressor import FREE
from .page import facts, section

PACKAGES = ("manykernels", "numpy", "scipy", "scikit-learn", "numba", "pandas", "altair")


def data_section(story):
    """Sizes: points, features, classes, groups."""
    model = story.model
    points, outputs = model.decision_.n_fit, len(model.intercept_)
    classes = getattr(model, "classes_", None)
    support = _of(np.size(model.support_), points) if hasattr(model, "support_") else None
    pairs = [
        ("training points", f"{points:,}"),
        ("distinct points", _distinct(model, points)),
        ("support vectors", support),
        ("features", f"{model.n_features_in_:,}"),
        ("kernels" if story.is_sum else "weights", f"{story.shares.m:,}"),
        ("classes", None if classes is None else _listed(classes)),
        ("targets", outputs if classes is None and outputs > 1 else None),
    ]
    return section("The data", facts(pairs), _groups_table(story))


def _distinct(model, points):
    """How many of the training points differ, where the bank has all of them and not only support
    vectors, as from a file.
    """
    whole = model.decision_.has_training_points and model.bank_.n < points
    return f"{model.bank_.n:,}" if whole else None


def _groups_table(story):
    """How many kernels every group has, and how many features they see."""
    seen = _features_of_groups(story.model.bank_)
    groups = [group.name for group in story.shares.groups() if group.name in seen]
    rows = [[name, f"{len(seen[name]):,}", _size(seen[name])] for name in groups]
    return table(["group", "kernels", "features"], rows) if rows else ""


def _of(part, whole):
    return f"{part:,}" if not whole else f"{part:,} ({percent(part / whole)})"


def _listed(labels, most=8):
    words = ", ".join(str(label) for label in labels[:most])
    return f"{len(labels)} ({words}{', …' if len(labels) > most else ''})"


def _features_of_groups(bank):
    """The features that each kernel of every group sees."""
    seen = {}
    for k, group in enumerate(bank.groups):
        seen.setdefault(group or "no group", []).append(bank.columns_of(k))
    return seen


def _size(columns):
    if any(some is None for some in columns):
        return "all"
    return f"{np.unique(np.concatenate(columns)).size:,}"


def formulation_section(story):
    """What was optimized, and with which parameters."""
    model = story.model
    pairs = [*_objective(model), *_outputs(model)]
    pairs += [
        ("solver", _short(model.solver)),
        ("kernels normalized by", (model.normalize or "nothing") if story.is_sum else None),
        ("approximation", _given(model, "approximation")),
    ]
    return section("What was optimized", facts(pairs), *_choice_of_p(model))


def _objective(model):
    """Combination, regularizer and loss."""
    loss = getattr(model, "loss", "one-class" if hasattr(model, "nu") else None)
    free = _value(model, "epsilon") if loss == "epsilon_insensitive" else None
    chosen = _norm(model) if getattr(model, "regularizer", None) is None else None
    return [
        ("combination", _short(model.combination)),
        ("regularizer", _given(model, "regularizer")),
        ("norm of the weights, p", chosen),
        ("kernels with weight, at most", model.max_kernels),
        ("groups with weight, at most", model.max_groups),
        ("cost of an error, C", _value(model, "C")),
        ("share outside, ν", _value(model, "nu")),
        ("loss", None if loss is None else _short(loss)),
        ("free error, ε", free),
    ]


def _outputs(model):
    """What is said of several classes or targets."""
    several = len(model.intercept_) > 1 and hasattr(model, "multiclass")
    whose = ("shared" if model.share_weights else "per class") if several else None
    classes = len(getattr(model, "classes_", ()))
    return [
        ("class weights", _given(model, "class_weight")),
        ("kernel weights", whose),
        ("several classes", model.multiclass if classes > 2 else None),
    ]


def _choice_of_p(model):
    """The scores from which p was chosen, if it was."""
    if not hasattr(model, "p_scores_"):
        return []
    rows = [
        [number(norm), f"{value:.4f}", "chosen" if norm == model.p_ else ""]
        for norm, value in model.p_scores_.items()
    ]
    return [
        element("h3", "How p was chosen"),
        table(["p", "mean score on held-out folds", ""], rows),
    ]


def _norm(model):
    p = getattr(model, "p", None)
    if p == "auto":
        return f"{number(model.p_)} (chosen on held-out folds)" if hasattr(model, "p_") else "auto"
    words = {1.0: " (few kernels)", float("inf"): " (plain sum)"}
    return f"{number(p)}{words.get(p, '')}"


def _value(model, name):
    value = getattr(model, name, None)
    if value == "auto":  # in units of the targets
        factor = FREE if name == "epsilon" else 1.0
        return f"auto, {number(factor * float(np.min(model.target_spreads_)))}"
    return None if value is None else number(value)


def _given(model, name):
    """A parameter as words; None where it was left out."""
    value = getattr(model, name, None)
    return None if value is None else _short(value)


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
            ("time to train", seconds(result.seconds)),
            ("of this in the solver", seconds(counters.seconds)),
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
