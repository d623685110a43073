"""From a prepared problem to a result: starts, outputs, and what goes on around a fit (callbacks,
the checkpoint, signals that end it).
"""

import logging
import sys
import time
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..banks import Bank
from ..banks.dense import DenseBank
from ..callbacks import Announcer
from ..planning import Batch, Plan, make_plan, plan_matrices, plan_solver
from ..problem import Problem
from ..result import Result, Resumed, merged
from ..run_state import Point, RunState
from ..solvers import Solver, drive
from ..solvers.wrappers.resumed import FromIterate
from .checkpoints import Journal, Termination
from .checks import check_sizes, choose_regularizer, memory_budget
from .data.prepare import request

SECONDS_AFTER_THE_END = 1.0  # for an SVM of each output whose turn had not come

log = logging.getLogger("manykernels")


class FitSession:
    """The surroundings of one fit; a context manager.

    Parameters
    ----------
    estimator : MKL estimator
    more : list of Bridge
        Callbacks besides the estimator's own; they get to know the run.
    batch : Batch, optional
        The problems that it is one of, for the plan; those of the fit by default.

    Attributes
    ----------
    journal : Journal or None
        The checkpoint.
    best : the RunState under work and its best Iterate so far, or None
    outcome : Outcome or None
        Of the last fit that went through `solve`.
    plan : Plan or None
        Of its first problem.
    result : Result or None
        What the callbacks are told at the end.
    began, ended : float or None
        By the clock of `time.perf_counter`.
    """

    def __init__(self, estimator, more=(), batch=None):
        self.estimator, self.announcer, self.journal = estimator, Announcer(estimator, more), None
        self.result = self.best = self.outcome = self.began = self.ended = None
        self.plan: Plan | None = None
        self._batch = batch
        self._termination = Termination() if estimator.checkpoint is not None else None
        for callback in more:
            callback.run = self

    def __enter__(self):
        self.began = time.perf_counter()
        if self._termination is not None:
            self._termination.__enter__()
        return self

    def __exit__(self, *reason):
        self.ended = time.perf_counter()
        if self.journal is not None and reason[0] is not None:
            self.journal.save()  # such as a cluster that is gone
        if self._termination is not None:
            self._termination.__exit__(*reason)
        self.announcer.end(self.result)
        if self._termination is not None:
            checkpoint = self.estimator.checkpoint
            self._termination.farewell(getattr(checkpoint, "path", checkpoint))

    @property
    def seconds(self):
        """Seconds from its beginning to its end, or so far."""
        return (self.ended or time.perf_counter()) - self.began

    def begin(self, prepared):
        """The data are ready: look for a checkpoint, tell the callbacks."""
        self.prepared = prepared
        if self.estimator.checkpoint is not None:
            self.journal = Journal(self.estimator.checkpoint, prepared.marks)
            self.journal.open()
        self.announcer.begin()

    def at_hand(self, prepared):
        """The same with all Gram matrices in memory, where that is the plan."""
        bank, estimator = prepared.bank, self.estimator
        budget = memory_budget(estimator.cache_size)
        if not plan_matrices(bank, estimator.solver, self.regularizer, budget):
            return prepared
        return prepared._replace(bank=DenseBank.from_bank(bank))

    def solve(self, prepared, start=None):
        """From a prepared problem to its `outcome`.

        Parameters
        ----------
        prepared : Prepared
        start : Result, optional
            An earlier result to begin from.
        """
        for task in self.tasks(prepared, start):
            task.result = drive(
                task.solver, task.state, tol=self.estimator.tol, max_iter=task.max_iter
            )
        return self.outcome

    def tasks(self, prepared, start=None):
        """The problems of a fit, one after the other: for every output that has weights of its own,
        for every start. Whoever drives them gives each its result; the last leaves the `outcome`.

        After Ctrl-C other outputs get one SVM at their first weights, or what comes of it in a
        second.
        """
        parts, max_iter = [], self.estimator.max_iter
        for part, begin, stage in self._outputs(prepared, start):
            found = []
            for state, name in self._starts(part, begin, stage, max_iter):
                task = self._task(state, name, max_iter)
                yield task
                self._finished(task)
                found.append(task)
                if task.result.status.broken_off:
                    break
            found.sort(key=lambda task: task.result.objective)
            parts.append(found)
            if found[0].result.status.broken_off:
                max_iter = 0
        self.outcome = _outcome(parts, self.estimator.share_weights)

    def _outputs(self, prepared, start):
        """Prepared problem, earlier result and name of every problem with weights of its own."""
        if self.estimator.share_weights:
            yield prepared, start, ""
            return
        for c, name in enumerate(self.estimator._output_names()):
            yield prepared.part(c), None if start is None else start.part(c), name

    def _starts(self, prepared, start, stage, max_iter):
        """A run from every start, and its name; one is enough from an earlier result, or to take no
        step.
        """
        rng, starts = check_random_state(self.estimator.random_state), prepared.bank.starts
        if starts < 1:
            raise ValueError(f"starts must be at least 1, got {starts!r}.")
        for attempt in range(1 if start is not None or max_iter == 0 else starts):
            state = run_state(self.estimator, prepared, start)
            if attempt:  # the first start is that of the combination itself
                moved = state.start.weights * rng.uniform(0.0, 2.0, state.start.weights.size)
                weights = state.problem.regularizer.project(moved)
                state.start = Point(weights, state.start.beta)
            named = [stage, f"start {attempt + 1} of {starts}" if starts > 1 else ""]
            yield state, ", ".join(filter(None, named))

    def _task(self, state, stage, max_iter):
        """The task of a run, which goes on from the checkpoint if there is one.

        Parameters
        ----------
        stage : str
            Which part of the fit this problem is; also the name of its section in the checkpoint.
        """
        solver, before = plan_solver(state, self.estimator.solver), None
        shapes = state.start.weights.shape, state.start.beta.shape
        section = self.journal.section(stage or "whole", shapes) if self.journal else None
        if section is not None:
            before, tol = section.resumed, self.estimator.tol
            self._say(before)
            proved = tol if abs(section.gap) <= tol else np.inf
            ended = section.status(tol, repr(solver))
            solver = FromIterate(solver, state.start, ended, proved)
            state.start = state.latest = Point(section.weights, section.beta)
        if self.plan is None:
            of = request(self.estimator), solver, self.batch_of(state), self.prepared.table
            self._tell(make_plan(state, *of))
        state.watch = self.announcer.watch(stage)
        if max_iter == self.estimator.max_iter:
            state.poll = self.announcer.poll
        else:
            state.poll = _after(SECONDS_AFTER_THE_END)
        task = Task(state, solver, stage, max_iter, before)
        state.keep = self._keeper(task)
        return task

    @property
    def regularizer(self):
        """The regularizer that the estimator asks for."""
        return choose_regularizer(_norm(self.estimator), self.estimator.regularizer)

    def batch_of(self, state):
        """The problems of the fit, for its plan."""
        if self._batch is not None:
            return self._batch
        outputs = 1 if self.estimator.share_weights else len(self.estimator._output_names())
        starts = state.bank.starts
        words = [f"{outputs} outputs with weights of their own"] * (outputs > 1)
        words += [f"{starts} starts"] * (starts > 1)
        words += ["p chosen before, on folds"] * (self.estimator.p == "auto")
        options = ("p",) if self.estimator.p == "auto" else ()
        return Batch(outputs * starts, what=", ".join(words), options=options)

    def _tell(self, plan):
        """Keep the plan, and say it first."""
        self.plan = plan
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(plan.summary(), file=sys.stderr, flush=True)

    def _keeper(self, task):
        if self.journal is None and not self.announcer.callbacks:
            return None

        def keep(best, record):
            self.best = task.state, best
            if self.journal is not None:
                self.journal.keep(task.stage or "whole", best, record, task.before)

        return keep

    def _finished(self, task):
        """One problem of the fit is solved, or broken off."""
        task.result.resumed = task.before
        if self.journal is not None:
            inner = task.solver.solver if isinstance(task.solver, FromIterate) else task.solver
            of = task.stage or "whole", task.result, self.estimator.tol, repr(inner), task.before
            self.journal.finish(*of)
            self._termination.leave()

    def _say(self, before: Resumed):
        text = (
            f"Going on from the checkpoint {self.journal.path}: {before.iteration} iterations, "
            f"relative gap {before.gap:.2g}, {before.seconds:.1f} s so far."
        )
        log.info(text)
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(text, file=sys.stderr, flush=True)


@dataclass
class Task:
    """One problem of a fit.

    Attributes
    ----------
    state : RunState
    solver : Solver
    stage : str
        Which part of the fit it is.
    max_iter : int, optional
        Steps at most.
    before : Resumed, optional
        What an earlier run had done.
    result : Result
        Once it was driven.
    """

    state: RunState
    solver: Solver
    stage: str
    max_iter: int | None
    before: Resumed | None
    result: Result | None = None


class Outcome(NamedTuple):
    """What came of a prepared problem.

    Attributes
    ----------
    result : Result
    bank : Bank
        As the run has left it: in float64 if float32 was too coarse for the tolerance.
    others : list of Result
        Of other starts, best first.
    """

    result: Result
    bank: Bank
    others: list


def _after(seconds):
    """Whether so many seconds have passed from now on, as a function."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end


def _outcome(parts, shared):
    """The outcome of the tasks of every problem with weights of its own, best first."""
    best = [found[0] for found in parts]
    others = list(chain.from_iterable(found[1:] for found in parts))
    result = best[0].result if shared else merged([task.result for task in best])
    return Outcome(result, best[-1].state.bank, [task.result for task in others])


def run_state(estimator, prepared, start):
    """A run on the problem with the estimator's C and regularizer."""
    costs = estimator._costs(prepared.cost)
    check_sizes(costs, prepared.targets)
    problem = Problem(
        prepared.bank,
        prepared.targets,
        costs,
        choose_regularizer(_norm(estimator), estimator.regularizer),
        estimator._loss(),
    )
    return RunState(problem, start=start, memory_budget=memory_budget(estimator.cache_size))


def _norm(estimator):
    return estimator.p_ if estimator.p == "auto" else estimator.p
