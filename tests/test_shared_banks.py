"""Problems side by side on one bank: the same answers as alone, and every way to end."""

import _thread
import threading
import time

import numpy as np
import pytest

from manykernels import MKLClassifier, path
from manykernels.banks import DenseBank, make_bank
from manykernels.banks.divided import DividedBank
from manykernels.banks.wrappers.shared import PassBatcher, held, width
from manykernels.kernels import RBF, KernelCollection, Linear, Polynomial, paper_bank
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import Newton, solve

rng = np.random.default_rng(0)
X = rng.normal(size=(70, 4))
y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=70) > 0.3, 1.0, -1.0)
KERNELS = KernelCollection(
    [
        *(RBF(gamma, features=[f]) for f in range(4) for gamma in (0.1, 1.0, 7.0)),
        *(Polynomial(degree, features=[f]) for f in range(4) for degree in (2, 3)),
        RBF(0.3),
        Linear(),
        Polynomial(4),
    ]
)


@pytest.fixture(params=["tiled", "dense"])
def bank(request):
    made = make_bank(KERNELS, X, dtype=np.float64, n_jobs=2)
    return made if request.param == "tiled" else DenseBank.from_bank(made)


class TestManyAtOnce:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("outputs", [1, 3, 20])
    def test_products_and_kernels_are_those_of_one(self, bank, dtype, outputs):
        exact = make_bank(KERNELS, X, dtype=np.float64)
        source = make_bank(KERNELS, X, dtype=dtype, n_jobs=2)
        bank = source if not isinstance(bank, DenseBank) else DenseBank.from_bank(source)
        betas, weights = rng.normal(size=(outputs, 70)), rng.random((outputs, bank.m))
        betas[:, ::3] = 0.0
        tol = 1e-4 if dtype == np.float32 else 1e-10
        expected = np.stack([exact.products(beta) for beta in betas], axis=1)
        np.testing.assert_allclose(bank.products(betas), expected, atol=tol)
        each = np.stack([exact.combine(row) for row in weights])
        np.testing.assert_allclose(bank.combine_each(weights), each, atol=tol)

    def test_new_points(self):
        bank = make_bank(KERNELS, X, dtype=np.float64).cross(rng.normal(size=(9, 4)))
        betas, weights = rng.normal(size=(8, 70)), rng.random((8, bank.m))
        one_by_one = np.stack([bank.products(beta) for beta in betas], axis=1)
        np.testing.assert_allclose(bank.products(betas), one_by_one, atol=1e-10)
        each = np.stack([bank.combine(row) for row in weights])
        np.testing.assert_allclose(bank.combine_each(weights), each, atol=1e-10)


class TestHub:
    def problems(self, bank):
        return [
            Problem(bank, y[None], np.full(70, C), PNormBall(p))
            for C in (0.1, 3.0, 100.0)
            for p in (1.0, 1.5, 3.0)
        ]

    def test_solvers_do_not_notice(self, bank):
        def work(task):
            return lambda shared: solve(task.on(shared), Newton(), tol=1e-6)

        tasks = self.problems(bank)
        together = PassBatcher(bank).run([work(task) for task in tasks])
        for task, result in zip(tasks, together, strict=True):
            assert result.status.name == "OPTIMAL"
            assert abs(task.certificate(result.weights, result.beta).gap) <= 1.1e-6
            alone = solve(task, Newton(), tol=1e-6)
            np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-5)

    def test_equal_bits(self, bank):
        def run():
            tasks = self.problems(bank)
            works = [lambda shared, task=task: solve(task.on(shared), Newton()) for task in tasks]
            return PassBatcher(bank).run(works)

        for first, second in zip(run(), run(), strict=True):
            assert np.array_equal(first.beta, second.beta)
            assert np.array_equal(first.weights, second.weights)

    def test_requests_are_answered_together(self, bank, monkeypatch):
        asked = []
        products = type(bank).products_each
        monkeypatch.setattr(
            type(bank), "products_each", lambda self, b: asked.append(len(b)) or products(self, b)
        )
        found = PassBatcher(bank).run(
            [lambda shared, c=c: shared.products(c * y) for c in range(1, 6)]
        )
        assert asked == [5]
        for c, one in enumerate(found, 1):
            np.testing.assert_allclose(one, c * found[0], rtol=1e-9)

    def test_who_ends_is_not_waited_for(self, bank):
        def work(count):
            return lambda shared: sum(
                float(shared.decision(np.ones(bank.m), y)[0]) for _ in range(count)
            )

        found = PassBatcher(bank).run([work(count) for count in (0, 1, 5, 2)])
        one = float(bank.decision(np.ones(bank.m), y)[0])
        np.testing.assert_allclose(found, np.array([0, 1, 5, 2]) * one)

    def test_an_error_in_one_is_raised(self, bank):
        def fails(shared):
            shared.combine(np.ones(bank.m))
            raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            PassBatcher(bank).run([fails, lambda shared: shared.products(y), lambda shared: 1])

    def test_an_error_of_the_bank_is_raised(self, bank):
        with pytest.raises(ValueError, match="one entry per point"):
            PassBatcher(bank).run([lambda shared: shared.products(np.ones(3))] * 3)

    def test_float64_is_shared(self):
        coarse = held(make_bank(KERNELS, X, dtype=np.float32), 2**30)
        hub = PassBatcher(coarse)
        banks = hub.run([lambda shared: shared.refined()] * 3)
        assert all(bank.bank is banks[0].bank for bank in banks)
        assert banks[0].dtype == np.float64
        assert banks[0].refined() is None
        tasks = self.problems(coarse)
        works = [lambda shared, t=t: solve(t.on(shared), Newton(), tol=1e-7) for t in tasks]
        for task, result in zip(tasks, hub.run(works), strict=True):
            exact = task.on(make_bank(KERNELS, X, dtype=np.float64))
            assert abs(exact.certificate(result.weights, result.beta).gap) <= 2e-7

    def test_the_last_products_are_remembered(self, bank, monkeypatch):
        """Certificates and decision values of the same coefficients take no further pass."""
        asked, products = [], type(bank).products_each
        monkeypatch.setattr(
            type(bank), "products_each", lambda self, b: asked.append(len(b)) or products(self, b)
        )

        def work(shared):
            first = shared.products(y)
            first *= 2.0  # what is given out is the caller's
            return shared.products(y), shared.quadratic_forms(y), shared.products(-y)

        ((again, forms, other),) = PassBatcher(bank).run([work])
        assert asked == [1, 1]
        np.testing.assert_allclose(again, bank.products(y))
        np.testing.assert_allclose(forms, bank.quadratic_forms(y))
        np.testing.assert_allclose(other, -again)

    def test_interrupts_reach_every_problem(self, bank):
        """Each returns what it has; nothing hangs."""

        def endless(shared):
            try:
                for number in range(10_000):
                    shared.products(number * y)
                    time.sleep(1e-3)
            except KeyboardInterrupt:
                return shared.products(y)[0, 0]  # still answered
            return None

        timer = threading.Timer(0.3, _thread.interrupt_main)
        timer.start()
        found = PassBatcher(bank).run([endless] * 4)
        timer.join()
        np.testing.assert_allclose(found, bank.products(y)[0, 0])

    def test_what_outlives_a_run(self):
        source = make_bank(KERNELS, X, dtype=np.float32)
        hub = PassBatcher(held(source, 2**30))
        assert isinstance(hub.bank, DividedBank)
        assert hub.run([lambda bank: bank.persistent])[0] is source
        assert source.persistent is source


def test_what_fits():
    bank = make_bank(KERNELS, X, dtype=np.float32)
    assert not any(isinstance(part.bank, DenseBank) for part in held(bank, 1000).parts)
    assert any(isinstance(part.bank, DenseBank) for part in held(bank, 2**30).parts)
    assert width(bank, 1, 1000) == 0
    assert width(bank, 1, 2**30) > width(bank, 5, 2**30) > 10


class TestPaths:
    def test_side_by_side_is_as_good_as_in_turn(self):
        labels = np.where(y > 0, "a", "b")
        model = MKLClassifier(paper_bank(X), tol=1e-4)
        grid = {"C": [0.1, 1.0, 10.0], "p": [1.0, 2.0]}
        together = path(model, X, labels, **grid)
        heard = []
        in_turn = path(model.set_params(callbacks=[heard.append]), X, labels, **grid)
        assert heard
        assert len(together) == len(in_turn) == 6
        for one, other in zip(together, in_turn, strict=True):
            assert (one.C, one.p) == (other.C, other.p)
            assert one.result_.objective == pytest.approx(other.result_.objective, rel=2e-4)
            assert type(one.bank_) is type(other.bank_)

    def test_small_budgets_are_kept(self):
        """Then there is one model after the other."""
        model = MKLClassifier(paper_bank(X), cache_size=0.5)
        assert len(path(model, X, y, C=[1.0, 2.0], p=[1.0, 2.0, 3.0])) == 6
