"""What ``manykernels train`` does: learn, write the model, score it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from .._files import check_replaceable
from ..display import report
from ..estimators import plan
from ..persistence import save
from ._input import read_training
from ._output import described
from ._pipeline import Settings, fit, fold_scores, held_out
from ._signals import Signals

__all__ = ["Order", "Progress", "Settings", "foreseen", "read_training"]


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


class Order(NamedTuple):
    """Files to write, and rows to score the model on."""

    out: Path | None
    report: Path | None = None
    test: Path | None = None
    holdout: float | None = None
    cv: int | None = None

    def check_files(self):
        """Raise for a file that cannot be written, before hours are spent on training."""
        for path in (self.out, self.report):
            if path is not None:
                check_replaceable(path)
        if self.test is not None and not self.test.is_file():
            raise FileNotFoundError(f"There is no file {self.test}.")

    def carry_out(self, data, settings, progress):
        """Train and return what happened, as a mapping.

        After Ctrl-C the model is that of the best weights so far; it is written, but nothing more
        is computed.
        """
        scores = {}
        if self.cv is not None:
            settings_of_folds = replace(settings, checkpoint=None)
            scores["cross-validated"] = fold_scores(
                data, settings_of_folds, self.cv, progress.interrupted
            )
        X, y, X_test, y_test = self.parts(data, settings.seed)
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

    def parts(self, data, seed):
        """Rows to train on, and rows to score the model on if there are any."""
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
            report(pipeline, X_test, y_test, path=self.report, title=str(self.out))


def foreseen(order, data, settings):
    """What training would do with the rows of an order, as a `Plan`."""
    X, y, *_ = order.parts(data, settings.seed)
    pipeline = settings.pipeline(X, data.task)
    for _, step in pipeline.steps[:-1]:
        X = step.fit_transform(X)
    return plan(pipeline[-1], X, y)
