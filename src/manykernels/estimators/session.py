"""From a prepared problem to a result: starts, outputs, and what goes on around a fit (callbacks,
the checkpoint, signals that end it).
"""

import logging
import sys
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._log import logger
from .._words import gap_in_words
from ..banks import Bank
from ..callbacks import Announcer
from ..planning import Batch, Plan, make_plan, plan_bank, plan_solver, plan_starts
from ..problem import Problem
from ..result import Result, Resumed, Status, merged
from ..run_state import Point, RunState
from ..solvers import drive
from ..solvers.wrappers import FromIterate
from .checkpoints import Journal, Termination
from .checks import check_sizes, choose_regularizer, limited, memory_budget
from .data.prepare import Prepared, request
from .data.silent import silent_kernels
from .engine import Engine, Job

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
        Of the last `solve`.
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

    def at_hand(self, prepared, **how):
        """The same with the bank that is visited; see `plan_bank`."""
        solver, budget = self.estimator.solver, memory_budget(self.estimator.cache_size)
        bank = plan_bank(prepared.bank, solver, self.regularizer, budget, **how)
        return prepared._replace(bank=bank)

    def note_silent(self, bank):
        """Which kernels of a bank say nothing about other points, unless that is known."""
        if self.prepared.silent is None and not bank.is_remote:
            self.prepared = self.prepared._replace(silent=silent_kernels(bank))

    def solve(self, prepared, start=None):
        """From a prepared problem to its `outcome`, by an engine.

        A fit is a list of one problem; of one for every output that has weights of its own, one
        after the other, and for every start, side by side if nobody listens to them.

        Parameters
        ----------
        prepared : Prepared
        start : Result, optional
            An earlier result to begin from.
        """
        outputs = self._outputs(prepared, start)
        found = [[] for _ in outputs]
        first = outputs[0][0]
        self._engine = Engine(prepared.bank, self._at_once(prepared.bank, self._starts(first)))
        for solved in self._engine.solve_all(self._waves(outputs, found)):
            for output, end in solved:
                found[output].append(end)
        for ends in found:
            ends.sort(key=_objective)
        results = [ends[0].result for ends in found]
        self.outcome = Outcome(
            results[0] if self.estimator.share_weights else merged(results),
            found[-1][0].bank,
            [end.result for ends in found for end in ends[1:]],
        )
        return self.outcome

    def _outputs(self, prepared, start):
        """Prepared problem, earlier result and name of every problem with weights of its own."""
        if self.estimator.share_weights:
            return [(prepared, start, "")]
        return [
            (prepared.part(c), None if start is None else start.part(c), name)
            for c, name in enumerate(self.estimator._output_names())
        ]

    def _waves(self, outputs, found):
        """The problems, one at a time; `found` has the ends of those before, by output.

        One start is enough from an earlier result, or to take no step. After Ctrl-C other outputs
        get one SVM at their first weights, or what comes of it in a second.
        """
        max_iter = self.estimator.max_iter
        for output, (prepared, start, name) in enumerate(outputs):
            starts = self._starts(prepared)
            if start is not None or max_iter == 0:
                starts = 1
            rng, tasks = check_random_state(self.estimator.random_state), []
            for attempt in range(starts):
                named = [name, f"start {attempt + 1} of {starts}" if starts > 1 else ""]
                # the first start is that of the combination itself
                moved = rng.uniform(0.0, 2.0, prepared.bank.m) if attempt else None
                stage = ", ".join(filter(None, named))
                tasks.append(Task(prepared, start, stage, max_iter, moved))
            step = self._engine.at_once
            for first in range(0, starts, step):
                some = tasks[first : first + step]
                yield [Job(output, partial(self._solved, task)) for task in some]
                if any(end.result.status.broken_off for end in found[output]):
                    break
            if min(found[output], key=_objective).result.status.broken_off:
                max_iter = 0

    def _starts(self, prepared):
        """Starts of a problem with all its points."""
        starts = prepared.bank.starts
        if starts < 1:
            raise ValueError(f"starts must be at least 1, got {starts!r}.")
        if starts == 1:
            return 1
        return plan_starts(run_state(self.estimator, prepared, None), self.estimator.solver)

    def _at_once(self, bank, starts):
        """Starts that are tried side by side: as many as there are, if there are cores and memory
        for them and nobody listens, who would hear of all of them at once.
        """
        listened = self.announcer.callbacks or self.journal is not None
        if starts == 1 or listened or bank.on_device or bank.threads.count == 1:
            return 1
        room = memory_budget(self.estimator.cache_size) // (bank.n**2 * bank.dtype.itemsize)
        return int(np.clip(room, 1, starts))

    def _solved(self, task, bank):
        """The end of a task on a bank; it goes on from the checkpoint if there is one."""
        state = run_state(self.estimator, task.prepared._replace(bank=bank), task.start)
        state.memory_budget //= self._engine.at_once
        if task.moved is not None:
            moved = state.start.weights * task.moved
            state.start = Point(state.problem.regularizer.project(moved), state.start.beta)
        planned = plan_solver(state, self.estimator.solver)
        solver, before = self._resumed(planned, state, task.section)
        if self.plan is None and task.moved is None:
            of = request(self.estimator), solver, self.batch_of(state), self.prepared.table
            self._tell(make_plan(state, *of))
        self._listen(state, task, before)
        result = drive(solver, state, tol=self.estimator.tol, max_iter=task.max_iter)
        if self._engine.stopped.is_set() and result.status is Status.STOPPED:
            result.status = Status.INTERRUPTED
        result.resumed = before
        if self.journal is not None:
            ended = result, self.estimator.tol, repr(planned), before
            self.journal.finish(task.section, *ended)
            self._termination.leave()
        return End(result, state.bank)

    def _resumed(self, solver, state, name):
        """The solver as it goes on from a section of the checkpoint, and what an earlier run had
        done; the solver as it is and None if there is no such section.
        """
        shapes = state.start.weights.shape, state.start.beta.shape
        section = self.journal.section(name, shapes) if self.journal else None
        if section is None:
            return solver, None
        before, tol = section.resumed, self.estimator.tol
        self._say(before)
        proved = tol if abs(section.gap) <= tol else np.inf
        ended = section.status(tol, repr(solver))
        if not solver.resumes_itself:
            solver = FromIterate(solver, state.start, ended, proved)
        state.start = state.latest = Point(section.weights, section.beta)
        return solver, before

    def _listen(self, state, task, before):
        """Let callbacks and the checkpoint hear of a run."""
        state.watch = self.announcer.watch(task.stage)
        if task.max_iter == self.estimator.max_iter:
            state.poll = self.announcer.poll
        else:
            state.poll = _after(SECONDS_AFTER_THE_END)
        if self._engine.at_once > 1:
            state.poll = self._engine.stopped.is_set
        if self.journal is None and not self.announcer.callbacks:
            return

        def keep(best, record):
            self.best = state, best
            if self.journal is not None:
                self.journal.keep(task.section, best, record, before)

        state.keep = keep

    @property
    def regularizer(self):
        """The regularizer that the estimator asks for."""
        return _regularizer(self.estimator)

    def batch_of(self, state):
        """The problems of the fit, for its plan."""
        if self._batch is not None:
            return self._batch
        outputs = 1 if self.estimator.share_weights else len(self.estimator._output_names())
        starts = plan_starts(state, self.estimator.solver)
        words = [f"{outputs} outputs with weights of their own"] * (outputs > 1)
        words += [f"{starts} starts"] * (starts > 1)
        words += ["p chosen before, on folds"] * (self.estimator.p == "auto")
        options = ("p",) if self.estimator.p == "auto" else ()
        at_once = self._at_once(state.bank, starts)
        return Batch(outputs * starts, at_once, ", ".join(words), options=options)

    def _tell(self, plan):
        """Keep the plan, and say it first."""
        self.plan = plan
        logger.info(plan.summary())
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(plan.summary(), file=sys.stderr, flush=True)

    def _say(self, before: Resumed):
        text = (
            f"Going on from the checkpoint {self.journal.path}: {before.iteration} iterations, "
            f"{gap_in_words(before.gap)}, {before.seconds:.1f} s so far."
        )
        log.info(text)
        if self.estimator.verbose and (self.estimator.verbose > 1 or sys.stderr.isatty()):
            print(text, file=sys.stderr, flush=True)


class Task(NamedTuple):
    """One problem of a fit.

    Attributes
    ----------
    prepared : Prepared
    start : Result or None
        An earlier result to begin from.
    stage : str
        Which part of the fit it is.
    max_iter : int or None
        Steps at most.
    moved : (m,) array or None
        Factors on the first weights, for another start.
    """

    prepared: Prepared
    start: Result | None
    stage: str
    max_iter: int | None
    moved: Any

    @property
    def section(self):
        """The name of its section in the checkpoint."""
        return self.stage or "whole"


class End(NamedTuple):
    """What came of a task.

    Attributes
    ----------
    result : Result
    bank : Bank
        In the precision that the run has come to.
    """

    result: Result
    bank: Bank


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


def _objective(end):
    return end.result.objective


def run_state(estimator, prepared, start):
    """A run on the problem with the estimator's C and regularizer."""
    costs = estimator._costs(prepared.cost)
    check_sizes(costs, prepared.targets)
    problem = Problem(
        prepared.bank,
        prepared.targets,
        costs,
        _regularizer(estimator),
        estimator._loss(),
    )
    return RunState(problem, start=start, memory_budget=memory_budget(estimator.cache_size))


def _regularizer(estimator):
    norm = estimator.p_ if estimator.p == "auto" else estimator.p
    return limited(estimator, choose_regularizer(norm, estimator.regularizer))
