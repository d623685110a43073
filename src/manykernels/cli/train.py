"""``manykernels train``."""

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from .running import NOT_CONVERGED, Json, ends_well, note

Task = Enum("Task", {name: name for name in ("auto", "classification", "regression")})
Normalize = Enum(
    "Normalize", {name: name for name in ("diagonal", "trace", "cosine", "center", "none")}
)
ClassWeight = Enum("ClassWeight", {"balanced": "balanced"})


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
    out: Annotated[Path, _of("Output", "Where to write the model.", "--out", "-o")],
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
    C: Annotated[float, _of("Model", "Cost of an error.", "--C")] = 1.0,
    loss: Annotated[
        str | None, _of("Model", "hinge, squared_hinge, hard_margin; epsilon_insensitive, squared.")
    ] = None,
    epsilon: Annotated[
        float | None, _of("Model", "Errors that cost nothing, in regression (0.1 by default).")
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
    json: Json = False,
    quiet: Annotated[bool, _of("Output", "Print errors only.", "--quiet", "-q")] = False,
):
    """Learn kernel weights and a support vector machine, and write the model to a file.

    With --holdout the model is trained on the other rows alone.
    """
    from .fitting import Settings
    from .inputs import read_training
    from .outcome import Plan, carry_out

    if test is not None and holdout is not None:
        raise typer.BadParameter(
            "--test and --holdout both say what to score on; give one of them."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise typer.BadParameter(f"--holdout must be between 0 and 1, got {holdout}.")
    settings = Settings(
        kernels=kernels, p=p, C=C, loss=loss, epsilon=epsilon, solver=solver, normalize=normalize.value, rank=rank, tol=tol,
        max_iter=max_iter, class_weight=class_weight.value if class_weight else None, n_jobs=n_jobs, device=device, seed=seed,
        standardize=standardize, checkpoint=checkpoint, verbose=0 if quiet or json else 1,
    )  # fmt: skip
    began = time.perf_counter()
    contents, task = read_training(data, target=target, task=task.value, n_features=n_features)
    plan = Plan(out, report, test, holdout, cv)
    outcome = carry_out(contents, task, settings, plan, began)
    _tell(outcome, json, quiet)
    if outcome["status"] == "INTERRUPTED":
        raise KeyboardInterrupt
    return None if outcome["converged"] else NOT_CONVERGED


def _tell(outcome, json, quiet):
    from .summary import print_json, print_training

    if json:
        print_json(outcome)
    elif not quiet:
        print_training(outcome)
    if not outcome["converged"]:
        note(
            f"not converged: {outcome['message']} The model was written to {outcome['model']} "
            "nevertheless."
        )
