"""``manykernels train``."""

import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ._output import (
    NOT_CONVERGED,
    Json,
    Signals,
    described,
    ends_well,
    note,
    print_json,
    print_training,
)


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
    json: Json = False,
    quiet: Annotated[bool, _of("Output", "Print errors only.", "--quiet", "-q")] = False,
):
    """Learn kernel weights and a support vector machine, and write the model to a file.

    With --holdout the model is trained on the other rows alone.
    """
    from ._pipeline import Settings

    _check_scoring(test, holdout)
    if tune and (p, C) != ("1", None):
        raise typer.BadParameter("--tune chooses p and C; leave --p and --C out.")
    settings = Settings(
        kernels=kernels, p=p, C=C, loss=loss, epsilon=epsilon, solver=solver,
        normalize=normalize.value, rank=rank, tol=tol, max_iter=max_iter,
        class_weight=class_weight.value if class_weight else None, n_jobs=n_jobs, device=device,
        seed=seed, standardize=standardize, checkpoint=checkpoint, tune=tune,
        verbose=0 if quiet or json else 1,
    )  # fmt: skip
    plan = Plan(out, report, test, holdout, cv)
    began = time.perf_counter()
    plan.check_files()
    settings.check(task.value)
    with Signals() as signals:
        progress = Progress(signals)
        try:
            outcome = plan.carry_out(
                _read(data, target=target, task=task.value, n_features=n_features),
                settings,
                progress,
            )
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


def _check_scoring(test, holdout):
    if test is not None and holdout is not None:
        raise typer.BadParameter(
            "--test and --holdout both say what to score on; give one of them."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise typer.BadParameter(f"--holdout must be between 0 and 1, got {holdout}.")


def _read(path, **options):
    from ._input import read_training

    return read_training(path, **options)


@dataclass
class Progress:
    """How far a training has come, for those who interrupt it.

    Attributes
    ----------
    signals : Signals
        Those that came while it went on.
    chosen : bool
        Whether C and p were chosen from a part of the grid.
    written : bool
        Whether the model is in its file.
    """

    signals: Signals
    chosen: bool = False
    written: bool = False

    def interrupted(self, estimator):
        """Whether a fit was interrupted; that of a tuned estimator goes on with what was finished
        of its grid.
        """
        self.chosen = self.signals.came is not None and hasattr(estimator, "best_index_")
        return self.chosen or estimator.result_.status.name == "INTERRUPTED"

    def words(self, out):
        """Whether there is a model, and of what."""
        if not self.written:
            return f"no model was written to {out}."
        choice = "C and p were chosen by the part of the grid that was finished; "
        return f"{choice if self.chosen else ''}the model was written to {out}."


class Plan(NamedTuple):
    """What to write, and what to score the model on."""

    out: Path
    report: Path | None = None
    test: Path | None = None
    holdout: float | None = None
    cv: int | None = None

    def check_files(self):
        """Raise for a file that cannot be written, before hours are spent on training."""
        from .._files import check_replaceable

        for path in (self.out, self.report):
            if path is not None:
                check_replaceable(path)
        if self.test is not None and not self.test.is_file():
            raise FileNotFoundError(f"There is no file {self.test}.")

    def carry_out(self, data, settings, progress):
        """Train as planned and return what happened, as a mapping.

        After Ctrl-C the model is that of the best weights so far; it is written, but nothing more
        is computed.
        """
        from .. import save
        from ._pipeline import fit, fold_scores

        scores = {}
        if self.cv is not None:
            settings_of_folds = replace(settings, checkpoint=None)
            scores["cross-validated"] = fold_scores(
                data, settings_of_folds, self.cv, progress.interrupted
            )
        X, y, X_test, y_test = self._parts(data, settings.seed)
        pipeline = fit(settings.pipeline(X, data.task), X, y)
        interrupted = progress.interrupted(pipeline[-1])
        save(pipeline, self.out, extra={"train": data.origin._asdict()})
        progress.written = True
        if not interrupted:
            scores |= self._scores(pipeline, (X, y), (X_test, y_test))
            self._write_report(pipeline, X_test, y_test)
        return {
            "model": str(self.out),
            "task": data.task,
            "data": {
                "rows": len(y),
                "features": X.shape[1],
                "standardized": len(pipeline) > 1,
                "classes": sorted(set(y.tolist())) if data.task == "classification" else None,
            },
            **described(pipeline[-1]),
            "interrupted": interrupted,
            "measure": "accuracy" if data.task == "classification" else "R²",
            "scores": scores,
        }

    def _parts(self, data, seed):
        """Rows to train on, and rows to score the model on if there are any."""
        from ._pipeline import held_out

        if self.holdout is not None:
            X, X_test, y, y_test = held_out(data.X, data.y, data.task, self.holdout, seed)
            return X, y, X_test, y_test
        if self.test is not None:
            return data.X, data.y, *data.origin.read_with_targets(self.test)
        return data.X, data.y, None, None

    def _scores(self, pipeline, training, test):
        """On the test rows; on the training rows only where there is nothing better."""
        if test[0] is not None:
            where = "test" if self.test is not None else "held out"
            return {where: float(pipeline.score(*test))}
        return {} if self.cv is not None else {"training": float(pipeline.score(*training))}

    def _write_report(self, pipeline, X_test, y_test):
        if self.report is not None:
            from ..display import report

            report(pipeline, X_test, y_test, path=self.report, title=str(self.out))


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
