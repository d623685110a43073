"""Ctrl-C is answered at once and keeps the best weights so far."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from conftest import toy
from manykernels import MKLClassifier
from manykernels._loops import jit
from manykernels.banks import make_bank
from manykernels.kernels import paper_bank
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import SPG, solve


class InterruptAfter:
    """A watch that raises at a given iteration, as the signal handler would."""

    def __init__(self, iteration):
        self.iteration = iteration

    def __call__(self, record):
        if record.iteration == self.iteration:
            raise KeyboardInterrupt


def test_best_weights_are_kept():
    X, y = toy(80)
    problem = Problem(make_bank(paper_bank(X), X), y, np.full(80, 10.0), PNormBall(1))
    result = solve(problem, SPG(), tol=1e-12, watch=InterruptAfter(5))
    assert result.status.name == "INTERRUPTED"
    assert result.n_iter == 5
    assert result.certificate.absolute_gap <= min(r.gap * r.objective for r in result.history) * (
        1 + 1e-9
    )
    assert result.duality_gap == pytest.approx(
        problem.certificate(result.weights, result.beta).gap, rel=1e-6
    )


def test_before_the_first_svm_is_done(monkeypatch):
    X, y = toy(80)
    problem = Problem(make_bank(paper_bank(X), X), y, np.full(80, 10.0), PNormBall(1))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SPG, "init", interrupted)
    result = solve(problem, SPG())
    assert result.status.name == "INTERRUPTED"
    assert np.isfinite(result.duality_gap)
    assert (result.weights >= 0).all()


def test_fit_returns_a_usable_model():
    X, y = toy(80)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        clf = MKLClassifier(tol=1e-12, callbacks=[InterruptAfter(4)]).fit(X, y)
    assert clf.result_.status.name == "INTERRUPTED"
    assert clf.score(X, y) > 0.5


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
@pytest.mark.parametrize("solver", ["newton", pytest.param("spg", marks=pytest.mark.long)])
def test_a_real_signal_ends_the_fit_and_keeps_the_model(solver):
    script = textwrap.dedent(f"""
        import warnings
        import numpy as np
        from manykernels import MKLClassifier
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.standard_normal((800, 5))
        # noise and a large C: hours of work to this tolerance
        y = np.where(rng.random(800) < 0.5, 1, -1)
        clf = MKLClassifier(C=1e4, p=1.0, tol=1e-9, solver="{solver}", verbose=2).fit(X, y)
        print(clf.result_.status.name, clf.result_.duality_gap, clf.score(X, y), flush=True)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("iteration")
        process.send_signal(signal.SIGINT)
        # milliseconds when measured; this only keeps a failure from hanging
        rest, _ = process.communicate(timeout=30)
    status, gap, score = rest.splitlines()[-1].split()
    assert status == "INTERRUPTED"
    assert float(gap) < np.inf
    assert float(score) > 0.5


def test_interrupt_in_a_thread_pool_is_not_lost():
    X, _ = toy(80)
    bank = make_bank(paper_bank(X), X, n_jobs=2)

    def fail(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bank.threads.map(fail, range(4))
    assert np.isfinite(bank.combine(np.ones(bank.m))).all()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_a_function_is_compiled(monkeypatch, number):
    """In the middle, Numba would lose what the handler raises, or keep its lock."""

    def load(*_):
        signal.raise_signal(number)

    monkeypatch.setattr(jit.LoopCache, "load_overload", load)
    monkeypatch.setattr(jit.LoopCache, "save_overload", lambda *_: None)

    @jit.cached_njit()
    def double(x):
        return x + x

    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            double(1.5)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert len(double.signatures) == 1
    assert double(1.5) == 3.0
