"""What goes on around a fit: callbacks, the checkpoint, and signals that end it."""

import logging
import signal
import sys
import threading

import numpy as np

from ..callbacks import Announcer
from ..result import Resumed
from ..solvers.wrappers.resumed import FromIterate
from .checkpoints import Journal

log = logging.getLogger("manykernels")


class Run:
    """The surroundings of one fit; a context manager.

    Parameters
    ----------
    estimator : MKL estimator
    more : list of Bridge
        Callbacks besides the estimator's own; they get to know the run.
    """

    def __init__(self, estimator, more=()):
        self.estimator, self.announcer, self.journal = estimator, Announcer(estimator, more), None
        self.saves = estimator.checkpoint is not None
        self.result, self.terminated, self.best = None, False, None
        for callback in more:
            callback.run = self

    def __enter__(self):
        if self.saves and threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(self, *_):
        if hasattr(self, "_old"):
            signal.signal(signal.SIGTERM, self._old if self._old is not None else signal.SIG_DFL)
        self.announcer.end(self.result)
        if self.terminated:
            path = getattr(self.estimator.checkpoint, "path", self.estimator.checkpoint)
            print(
                f"Terminated. What was reached is in the checkpoint {path}; run again to go on.",
                file=sys.stderr,
                flush=True,
            )
        self._leave_if_terminated()

    def _terminate(self, *_):
        """End the fit as Ctrl-C would; a second signal must not disturb the last write."""
        if not self.terminated:
            self.terminated = True
            raise KeyboardInterrupt

    def _leave_if_terminated(self):
        if self.terminated:
            raise SystemExit(128 + signal.SIGTERM)

    def begin(self, prepared):
        """The data are ready: look for a checkpoint, tell the callbacks."""
        self.prepared = prepared
        if self.saves:
            self.journal = Journal(self.estimator.checkpoint, prepared.marks)
            self.journal.open()
        self.announcer.begin()

    def watched(self, stage, problem, solver):
        """The solver, which goes on from the checkpoint if there is one, and what `drive` should
        call.

        Parameters
        ----------
        stage : str
            Which part of the fit this problem is; also the name of its section in the checkpoint.
        """
        name = stage or "whole"
        shapes = problem.start[0].shape, problem.start[1].shape
        section = self.journal.section(name, shapes) if self.journal else None
        before = None
        if section is not None:
            before = section.resumed
            self._say(before)
            tol = self.estimator.tol
            proved = tol if abs(section.gap) <= tol else np.inf
            solver = FromIterate(solver, problem.start, section.status(tol, repr(solver)), proved)
            problem.start = problem.latest = section.weights, section.beta
        return (
            solver,
            before,
            {"watch": self.announcer.watch(stage), "keep": self._keeper(name, problem, before)},
        )

    def _keeper(self, name, problem, before):
        if self.journal is None and not self.announcer.callbacks:
            return None

        def keep(best, record):
            self.best = problem, best
            if self.journal is not None:
                self.journal.keep(name, best, record, before)

        return keep

    def finished(self, stage, result, solver, before):
        """One problem of the fit is solved, or broken off."""
        result.resumed = before
        if self.journal is not None:
            inner = solver.solver if isinstance(solver, FromIterate) else solver
            self.journal.finish(stage or "whole", result, self.estimator.tol, repr(inner), before)
            self._leave_if_terminated()

    def _say(self, before: Resumed):
        text = (
            f"Going on from the checkpoint {self.journal.path}: {before.iteration} iterations, "
            f"relative gap {before.gap:.2g}, "
            f"{before.seconds:.1f} s so far."
        )
        log.info(text)
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(text, file=sys.stderr, flush=True)
