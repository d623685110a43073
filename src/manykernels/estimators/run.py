"""From a prepared problem to a result: starts, outputs, and what goes on around a fit (callbacks,
the checkpoint, signals that end it).
"""

import logging
import sys
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..banks import Bank
from ..callbacks import Announcer
from ..problem import Problem
from ..result import Result, Resumed, merged
from ..solvers import choose_solver, drive
from ..solvers.wrappers.resumed import FromIterate
from .checkpoints import Journal
from .checks import choose_regularizer, memory_budget
from .signals import Termination

log = logging.getLogger("manykernels")


class Run:
    """The surroundings of one fit; a context manager.

    Parameters
    ----------
    estimator : MKL estimator
    more : list of Bridge
        Callbacks besides the estimator's own; they get to know the run.

    Attributes
    ----------
    journal : Journal or None
        The checkpoint.
    best : the problem under work and its best Iterate so far, or None
    result : Result or None
        What the callbacks are told at the end.
    """

    def __init__(self, estimator, more=()):
        self.estimator, self.announcer, self.journal = estimator, Announcer(estimator, more), None
        self.result, self.best = None, None
        self._termination = Termination() if estimator.checkpoint is not None else None
        for callback in more:
            callback.run = self

    def __enter__(self):
        if self._termination is not None:
            self._termination.__enter__()
        return self

    def __exit__(self, *reason):
        if self._termination is not None:
            self._termination.__exit__(*reason)
        self.announcer.end(self.result)
        if self._termination is not None and self._termination.came:
            path = getattr(self.estimator.checkpoint, "path", self.estimator.checkpoint)
            print(
                f"Terminated. What was reached is in the checkpoint {path}; run again to go on.",
                file=sys.stderr,
                flush=True,
            )
            self._termination.leave()

    def begin(self, prepared):
        """The data are ready: look for a checkpoint, tell the callbacks."""
        self.prepared = prepared
        if self.estimator.checkpoint is not None:
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
            self._termination.leave()

    def _say(self, before: Resumed):
        text = (
            f"Going on from the checkpoint {self.journal.path}: {before.iteration} iterations, "
            f"relative gap {before.gap:.2g}, {before.seconds:.1f} s so far."
        )
        log.info(text)
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(text, file=sys.stderr, flush=True)


class Outcome(NamedTuple):
    """What came of a prepared problem.

    Attributes
    ----------
    result : Result
    bank : Bank
        In float64 if float32 was too coarse for the tolerance.
    others : list of Result
        Of other starts, best first.
    """

    result: Result
    bank: Bank
    others: list


def solve(run, prepared, start=None):
    """Solve for the weights of a run's estimator, from an earlier result if there is one."""
    if run.estimator.share_weights:
        return _best(run, prepared, start, run.estimator.max_iter)
    parts = _per_output(run, prepared, start)
    return Outcome(
        merged([part.result for part in parts]),
        parts[-1].bank,
        list(chain.from_iterable(part.others for part in parts)),
    )


def _per_output(run, prepared, start):
    """The outcome of every output by itself; after Ctrl-C the others get one SVM at their first
    weights.
    """
    parts, steps, names = [], run.estimator.max_iter, run.estimator._output_names()
    for c in prepared.outputs:
        begin = None if start is None else start.part(c)
        parts.append(_best(run, prepared.part(c), begin, steps, names[c]))
        if parts[-1].result.status.broken_off:
            steps = 0
    return parts


def _best(run, prepared, start, max_iter, stage=""):
    """The best of all starts; one is enough from an earlier result, or to take no step."""
    rng, starts = check_random_state(run.estimator.random_state), prepared.bank.starts
    if starts < 1:
        raise ValueError(f"starts must be at least 1, got {starts!r}.")
    found = []
    for attempt in range(1 if start is not None or max_iter == 0 else starts):
        problem = _problem(run.estimator, prepared, start)
        if attempt:  # the first start is that of the combination itself
            _move_start(problem, rng)
        named = [stage, f"start {attempt + 1} of {starts}" if starts > 1 else ""]
        result = _driven(run, problem, max_iter, ", ".join(filter(None, named)))
        found.append((result, problem.bank))
        if result.status.broken_off:
            break
    found.sort(key=lambda pair: pair[0].objective)
    return Outcome(*found[0], [result for result, _ in found[1:]])


def _problem(estimator, prepared, start):
    """The statement of the problem with the estimator's C and regularizer."""
    p = estimator.p_ if estimator.p == "auto" else estimator.p
    return Problem(
        prepared.bank,
        prepared.targets,
        getattr(estimator, "C", 1.0) * prepared.cost,
        choose_regularizer(p, estimator.regularizer),
        loss=estimator._loss(),
        start=start,
        memory_budget=memory_budget(estimator.cache_size),
    )


def _move_start(problem, rng):
    weights, beta = problem.start
    moved = weights * rng.uniform(0.0, 2.0, weights.size)
    problem.start = problem.regularizer.project(moved), beta


def _driven(run, problem, max_iter, stage):
    """The result of one problem, which the run hears of."""
    solver = choose_solver(run.estimator.solver, problem)
    solver, before, options = run.watched(stage, problem, solver)
    result = drive(solver, problem, tol=run.estimator.tol, max_iter=max_iter, **options)
    run.finished(stage, result, solver, before)
    return result
