"""``manykernels train``."""

import time
import warnings
from csv import reader
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ._output import (
    NOT_CONVERGED,
    Json,
    ends_well,
    note,
    print_json,
    print_training,
)
from ._signals import Signals, starting


class Task(Enum):
    """What to learn."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


class Normalize(Enum):
    """How kernels are made comparable."""

    diagonal = "diagonal"
    trace = "trace"
    cosine = "cosine"
    center = "center"
    none = "none"


class ClassWeight(Enum):
    """How classes are weighted."""

    balanced = "balanced"


def _of(panel, help, *names, **limits):
    return typer.Option(*names, help=help, rich_help_panel=panel, **limits)


@ends_well
def train(
    data: Annotated[
        Path,
        typer.Argument(
            help="Training data: .csv, .tsv, .parquet, .npz, or LIBSVM text (.libsvm, .svm, .txt)."
        ),
    ],
    out: Annotated[Path | None, _of("Output", "Where to write the model.", "--out", "-o")] = None,
    target: Annotated[
        str | None, _of("Data", "Column to predict (CSV, Parquet); the last one by default.")
    ] = None,
    task: Annotated[
        Task, _of("Data", "auto: classification for words and up to 20 whole numbers.")
    ] = Task.auto,
    standardize: Annotated[
        bool | None,
        _of(
            "Data",
            "Scale features to mean 0 and deviation 1, here and in predict; by default unless the "
            "data are sparse.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        _of("Data", "Columns to learn from, with commas or again and again; all by default."),
    ] = None,
    drop: Annotated[
        list[str] | None, _of("Data", "Columns to leave out, such as identifiers.")
    ] = None,
    groups_column: Annotated[
        str | None,
        _of("Data", "Column of rows that belong together: folds and --holdout keep them so."),
    ] = None,
    n_features: Annotated[
        int | None,
        _of("Data", "Features of LIBSVM text, if other files have more than this one.", min=1),
    ] = None,
    test: Annotated[Path | None, _of("Data", "A file to score the model on.")] = None,
    holdout: Annotated[
        float | None, _of("Data", "Share of the rows kept out of training, to score on.")
    ] = None,
    cv: Annotated[
        int | None, _of("Data", "Also cross-validate with this many folds.", min=2)
    ] = None,
    kernels: Annotated[
        str,
        _of("Model", "auto; or rbf, laplacian, linear, poly, polyN with commas; or a JSON file."),
    ] = "auto",
    p: Annotated[
        str,
        _of(
            "Model",
            "Norm of the weights: 1 keeps few kernels, inf all alike; auto asks held-out folds.",
            "--p",
        ),
    ] = "1",
    C: Annotated[
        float | None,
        _of("Model", "Cost of an error; 1, or for regression the spread of the targets.", "--C"),
    ] = None,
    tune: Annotated[
        bool,
        _of(
            "Model",
            "Choose C and p on held-out folds, from a grid made from the data; in place of --p and "
            "--C. Classifiers then know probabilities.",
            "--tune",
        ),
    ] = False,
    loss: Annotated[
        str | None,
        _of(
            "Model",
            "hinge, squared_hinge, logistic, hard_margin; epsilon_insensitive, squared. With "
            "logistic, classifiers know probabilities.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        _of("Model", "Errors that cost nothing; by default a tenth of the targets' spread."),
    ] = None,
    normalize: Annotated[
        Normalize, _of("Model", "How kernels are made comparable.")
    ] = Normalize.diagonal,
    rank: Annotated[
        int | None, _of("Model", "Nyström approximation of this rank, for very many rows.", min=1)
    ] = None,
    class_weight: Annotated[
        ClassWeight | None, _of("Model", "Weight classes by one over their frequency.")
    ] = None,
    solver: Annotated[str, _of("Solver", "auto, newton, spg, smo, group_lasso, mwu, …")] = "auto",
    tol: Annotated[float, _of("Solver", "Relative duality gap to reach.")] = 1e-3,
    max_iter: Annotated[int | None, _of("Solver", "Iterations at most.", min=0)] = None,
    checkpoint: Annotated[
        Path | None, _of("Solver", "Save the run here now and then, and go on from there.")
    ] = None,
    n_jobs: Annotated[
        int | None, _of("Solver", "Threads; all cores by default.", "--n-jobs", "-j")
    ] = None,
    device: Annotated[
        str, _of("Solver", "cpu, cuda or cuda:1; GPUs need PyTorch.", "--device")
    ] = "cpu",
    seed: Annotated[
        int, _of("Solver", "For everything random: folds, landmarks, starts.", min=0)
    ] = 0,
    report: Annotated[Path | None, _of("Output", "Also write an HTML report.")] = None,
    plan: Annotated[
        bool, _of("Output", "Print what training would do and why, and end.", "--plan")
    ] = False,
    json: Json = False,
    quiet: Annotated[bool, _of("Output", "Print errors only.", "--quiet", "-q")] = False,
):
    """Learn kernel weights and a support vector machine, and write the model to a file.

    With --holdout the model is trained on the other rows alone.
    """
    if out is None and not plan:
        raise typer.BadParameter("say where to write the model, with --out.")
    _check_scoring(test, holdout)
    if tune and (p, C) != ("1", None):
        raise typer.BadParameter("--tune chooses p and C; leave --p and --C out.")
    with starting():
        from ._training import Columns, Order, Progress, Settings, foreseen, read_training
    settings = Settings(
        kernels=kernels, p=p, C=C, loss=loss, epsilon=epsilon, solver=solver,
        normalize=normalize.value, rank=rank, tol=tol, max_iter=max_iter,
        class_weight=class_weight.value if class_weight else None, n_jobs=n_jobs, device=device,
        seed=seed, standardize=standardize, checkpoint=checkpoint, tune=tune,
        verbose=0 if quiet or json else 1, grouped=groups_column is not None,
    )  # fmt: skip
    chosen = Columns(target, columns and _names(columns), _names(drop or []), groups_column)
    order = Order(out, report, test, holdout, cv)
    began = time.perf_counter()
    order.check_files()
    settings.check(task.value)
    with Signals() as signals, warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        progress = Progress(signals)
        try:
            rows = read_training(data, chosen, task=task.value, n_features=n_features)
            if plan:
                return _tell_plan(foreseen(order, rows, settings), json)
            outcome = order.carry_out(rows, settings, progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(progress.words(out)) from None
        except Exception:  # such as a report that cannot be written
            if progress.written:
                note(progress.words(out))
            raise
    outcome["seconds"] = time.perf_counter() - began
    _tell(outcome, json, quiet)
    if outcome["interrupted"]:
        raise KeyboardInterrupt(progress.words(out))
    return None if outcome["converged"] else NOT_CONVERGED


def _names(options):
    """Names of columns, several of which may be in one option."""
    return [name.strip() for option in options for name in next(reader([option]))]


def _check_scoring(test, holdout):
    if test is not None and holdout is not None:
        raise typer.BadParameter(
            "--test and --holdout both say what to score on; give one of them."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise typer.BadParameter(f"--holdout must be between 0 and 1, got {holdout}.")


def _tell_plan(plan, json):
    if not json:
        print(plan)
        return
    decisions = {name: one._asdict() for name, one in plan.decisions().items()}
    ways = sorted(way.value for way in plan.ways)
    print_json({"problem": plan.statement, **decisions, "memory": plan.memory, "ways": ways})


def _tell(outcome, json, quiet):
    if json:
        print_json(outcome)
    elif not quiet:
        print_training(outcome)
    if not outcome["converged"]:
        note(
            f"not converged: {outcome['message']} The model was written to {outcome['model']} "
            "nevertheless."
        )
