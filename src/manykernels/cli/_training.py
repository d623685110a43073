"""What ``manykernels train`` does: learn, write the model, score it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from .._files import check_replaceable
from ..display import report
from ..estimators import plan
from ..persistence import save
from ._doubts import tell, unseen_categories
from ._input import Columns, read_training
from ._measures import ACCURACY, DETERMINATION, Answers, measured
from ._output import described
from ._pipeline import Settings, fit, fold_measures, held_out
from ._signals import Signals

__all__ = ["Columns", "Order", "Progress", "Settings", "foreseen", "read_training"]


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
        found = {}
        if self.cv is not None:
            settings_of_folds = replace(settings, checkpoint=None)
            folds = fold_measures(data, settings_of_folds, self.cv, progress.interrupted)
            found["cross-validated"] = tuple(map(_of_folds, zip(*folds, strict=True)))
        (X, y, groups), (X_test, y_test) = self.parts(data, settings.seed)
        pipeline = fit(settings.pipeline(X, data.task), X, y, groups)
        interrupted = progress.interrupted(pipeline[-1])
        save(pipeline, self.out, extra={"train": data.origin._asdict()})
        progress.written = True
        if not interrupted:
            found |= self._measures(pipeline, (X, y), (X_test, y_test))
            self._write_report(pipeline, X_test, y_test)
        measure = ACCURACY if data.task == "classification" else DETERMINATION
        return {
            "model": str(self.out),
            "task": data.task,
            "data": {
                "rows": len(y),
                "features": X.shape[1],
                "standardized": settings.scales(X),
                "classes": sorted(set(y.tolist())) if data.task == "classification" else None,
            },
            "doubts": data.doubts,
            **described(pipeline[-1]),
            "interrupted": interrupted,
            "measure": measure,
            "scores": {place: values[measure] for place, (values, _) in found.items()},
            "measures": {place: values for place, (values, _) in found.items()},
            "without_features": {place: constant for place, (_, constant) in found.items()},
        }

    def parts(self, data, seed):
        """Rows to train on (X, y and groups), and rows to score the model on if there are any."""
        if self.holdout is not None:
            train, test = held_out(data, self.holdout, seed)
            return data.part(train), data.part(test)[:2]
        if self.test is not None:
            test = data.origin.read_with_targets(self.test)
            return (data.X, data.y, data.groups), test
        return (data.X, data.y, data.groups), (None, None)

    def _measures(self, pipeline, training, test):
        """What is `measured` on the test rows; on rows that folds held out, or that the model was
        trained on, only where there is nothing better.
        """
        (X, y), (X_test, y_test) = training, test
        if X_test is not None:
            tell(unseen_categories(pipeline[-1], X_test))
            where = "test" if self.test is not None else "held out"
            return {where: measured(Answers.of(pipeline, X_test), y_test, y)}
        if self.cv is not None:
            return {}
        if hasattr(pipeline[-1], "oof_decision_"):
            answers, known = Answers.held_out(pipeline[-1])
            return {"tuning folds": measured(answers, y[known], y)}
        return {"training": measured(Answers.of(pipeline, X), y, y)}

    def _write_report(self, pipeline, X_test, y_test):
        if self.report is not None:
            report(pipeline, X_test, y_test, path=self.report, title=str(self.out))


def _of_folds(measures):
    """Lists by name, of mappings from name to number; what some fold has no number for is left
    out.
    """
    names = [name for name in measures[0] if all(name in fold for fold in measures)]
    return {name: [fold[name] for fold in measures] for name in names}


def foreseen(order, data, settings):
    """What training would do with the rows of an order, as a `Plan`."""
    (X, y, _), _ = order.parts(data, settings.seed)
    pipeline = settings.pipeline(X, data.task)
    for _, step in pipeline.steps[:-1]:
        X = step.fit_transform(X)
    return plan(pipeline[-1], X, y)
