"""Newton's method without the products of all kernels, and on a part of many kernels first."""

import tracemalloc

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels import MKLClassifier
from manykernels.banks import MaskedBank, make_bank, masked
from manykernels.banks import masked as pairs
from manykernels.banks.wrappers.parts import SampledBank
from manykernels.kernels import KernelCollection
from manykernels.problem import Problem
from manykernels.regularizers import Curvature, GeneralizedKL, PNormBall, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import Newton, choose_solver, drive, newton, solve, wrappers

X, y = toy(36)
RNG = np.random.default_rng(0)
CODES = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, 2))
TARGETS = {1: y, 3: np.stack([np.where(CODES == c, 1.0, -1.0) for c in range(3)])}


def masked_kernels(m=120, features=4):
    masks = RNG.random((m, features)) < 0.5
    masks[:, 0] |= ~masks.any(axis=1)
    return KernelCollection.masked_rbf(2.0 ** RNG.uniform(-4, 1, m), masks)


MASKED = masked_kernels()
BANKS = {
    "mixed": make_bank(KernelCollection(MIXED), X),
    "masked": make_bank(MASKED, X, normalize="trace"),
}


def problem(bank, regularizer, outputs=1):
    return Problem(bank, TARGETS[outputs], np.full(36, 10.0), regularizer)


def plain_sums(bank, weights, beta, J):
    grams = bank.columns(np.arange(bank.n))
    M = np.stack([grams @ b for b in beta], axis=1)
    return (
        np.tensordot(weights, grams, 1),
        np.einsum("k,kci,kej->ceij", J.diagonal, M, M),
        np.tensordot(J.vector, M, 1),
    )


@pytest.mark.parametrize("p", [1.0, 1.33])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_fit_is_a_function_of_its_inputs(p, streamed):
    """Bit by bit, whichever of its threads is the fastest."""
    kernels = masked_kernels(1500)
    bank = make_bank(kernels, X, normalize="trace", n_jobs=4)
    fits = [solve(problem(bank, PNormBall(p)), Newton(streamed)) for _ in range(3)]
    for other in fits[1:]:
        assert np.array_equal(fits[0].weights, other.weights)
        assert np.array_equal(fits[0].beta, other.beta)
        assert fits[0].duality_gap == other.duality_gap


class TestPasses:
    beta = RNG.standard_normal((2, 36)) * (RNG.random(36) < 0.7)
    change = RNG.standard_normal((2, 36)) * (RNG.random(36) < 0.5)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("kernels", [MASKED, KernelCollection(MIXED)], ids=["masked", "mixed"])
    def test_sweep_and_along(self, kernels, dtype):
        self.check(
            make_bank(kernels, X, normalize="trace", dtype=dtype),
            1e-5 if dtype == np.float32 else 1e-11,
        )

    @pytest.mark.parametrize("held", [True, False])
    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_sizes_of_chunks_and_threads_change_nothing(self, monkeypatch, held, n_jobs):
        sizes = masked.Sizes(block_pairs=7, held_chunks=2, held_bytes=2**20 if held else 0)
        monkeypatch.setattr(masked, "KERNELS", 11)
        monkeypatch.setattr(masked, "SIZES", sizes)
        bank = make_bank(MASKED, X, n_jobs=n_jobs)
        self.check(bank, 1e-11)
        grams, weights = bank.columns(np.arange(36)), np.arange(120.0)
        np.testing.assert_allclose(
            bank.combine(weights), np.tensordot(weights, grams, 1), rtol=1e-12
        )
        np.testing.assert_allclose(
            bank.quadratic_forms(self.beta), sum((grams @ b) @ b for b in self.beta), atol=1e-11
        )
        np.testing.assert_allclose(bank.products(self.beta[0]), grams @ self.beta[0], atol=1e-12)

    def check(self, bank, tol):
        rng = np.random.default_rng(1)
        weights, J = (
            rng.random(bank.m),
            Curvature(rng.random(bank.m), -0.3, rng.standard_normal(bank.m)),
        )
        found, expected = (
            bank.newton_sums(weights, self.beta, J),
            plain_sums(bank, weights, self.beta, J),
        )
        for value, plain in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, plain, atol=tol * np.abs(plain).max())
        grams = bank.columns(np.arange(36))
        for value, other in zip(
            bank.directional_forms(self.beta, self.change), (self.beta, self.change), strict=True
        ):
            plain = sum((grams @ b) @ c for b, c in zip(other, self.change, strict=True))
            np.testing.assert_allclose(value, plain, atol=tol * np.abs(plain).max())

    @pytest.mark.parametrize(
        ("n_rows", "n_cols", "triangle"),
        [(1, 1, True), (60, 60, True), (2, 300, False), (0, 5, False)],
    )
    def test_pairs(self, n_rows, n_cols, triangle):
        blocks = list(pairs.Pairs(n_rows, n_cols, triangle, lambda i, j: (10 * i + j,)))
        i, j = (
            np.tril_indices(n_rows, -1) if triangle else np.indices((n_rows, n_cols)).reshape(2, -1)
        )
        for field, expected in (("rows", i), ("cols", j)):
            np.testing.assert_array_equal(
                np.concatenate([[], *(getattr(block, field) for block in blocks)]), expected
            )
        np.testing.assert_array_equal(
            np.concatenate([[], *(block.arrays[0] for block in blocks)]), 10 * i + j
        )

    def test_pairs_of_many_points(self):
        many = pairs.Pairs(3_000_000, 3_000_000, True, lambda i, j: (i,))
        assert (many[len(many) - 1].rows[-1], many[len(many) - 1].cols[-1]) == (
            2_999_999,
            2_999_998,
        )

    def test_subset(self):
        chosen = np.array([100, 3, 4])
        for dtype in (np.float32, np.float64):
            bank = make_bank(MASKED, X, normalize="trace", dtype=dtype)
            some = bank.take_kernels(chosen)
            assert (some.m, some.dtype, some.symmetric) == (3, dtype, True)
            np.testing.assert_array_equal(some.columns([5, 6]), bank.columns([5, 6])[chosen])
            assert list(some.names) == [bank.names[k] for k in chosen]

    def test_sample(self):
        sample = SampledBank(BANKS["masked"], 7)
        assert np.bincount(sample.stands_for).tolist() == [18, 17, 17, 17, 17, 17, 17]
        np.testing.assert_array_equal(sample.stands_for[sample.chosen], np.arange(7))
        grams = sample.columns(np.arange(36))
        np.testing.assert_array_equal(
            grams, BANKS["masked"].columns(np.arange(36))[sample.chosen][sample.stands_for]
        )
        np.testing.assert_allclose(
            sample.combine(np.arange(120.0)), np.tensordot(np.arange(120.0), grams, 1), rtol=1e-12
        )
        np.testing.assert_allclose(
            sample.quadratic_forms(self.beta), sum((grams @ b) @ b for b in self.beta), atol=1e-12
        )
        self.check(sample, 1e-11)


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize("outputs", TARGETS)
@pytest.mark.parametrize(
    "regularizer",
    [PNormBall(1), PNormBall(1.33), PNormBall(2), SquaredPNorm(3), GeneralizedKL(0.3, 2.0)],
    ids=repr,
)
def test_streamed_and_held_agree(name, outputs, regularizer):
    tol, bank = 1e-7 if regularizer.smooth else 1e-5, BANKS[name]
    held, streamed = (
        solve(problem(bank, regularizer, outputs), Newton(streamed), tol=tol)
        for streamed in (False, True)
    )
    assert held.status.name == streamed.status.name == "OPTIMAL"
    assert abs(held.n_iter - streamed.n_iter) <= 1
    assert streamed.objective == pytest.approx(held.objective, rel=2 * tol)
    fresh = problem(bank, regularizer, outputs).certificate(streamed.weights, streamed.beta)
    assert fresh.gap <= tol * (1 + 1e-3)


class TestParts:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(wrappers, "FIRST", 12)
        monkeypatch.setattr(wrappers, "MORE", 9)
        monkeypatch.setattr(wrappers, "SMALLEST_SAMPLE", 12)

    @pytest.mark.parametrize("outputs", TARGETS)
    @pytest.mark.parametrize("p", [1, 1.33, 2])
    def test_agree_with_the_whole(self, p, outputs):
        bank, tol = BANKS["masked"], 1e-4
        parts, whole = (
            solve(problem(bank, PNormBall(p), outputs), Newton(partial=part), tol=tol)
            for part in (True, False)
        )
        assert parts.status.name == whole.status.name == "OPTIMAL"
        assert parts.weights.shape == (120,)
        assert parts.objective == pytest.approx(whole.objective, rel=2 * tol)
        assert problem(bank, PNormBall(p), outputs).certificate(
            parts.weights, parts.beta
        ).gap <= tol * (1 + 1e-3)

    def test_starts_from_an_earlier_result(self):
        for p in (1, 1.33):
            first = solve(problem(BANKS["masked"], PNormBall(p)), Newton(partial=True), tol=1e-4)
            task = problem(BANKS["masked"], PNormBall(p))
            again = solve(task, Newton(partial=True), tol=1e-3, start=first)
            assert again.n_iter <= 1

    def test_starts_from_a_result_that_uses_all_kernels(self):
        first = solve(problem(BANKS["masked"], PNormBall(2)), Newton(partial=True), tol=1e-4)
        task = problem(BANKS["masked"], PNormBall(1))
        run = RunState(task, start=first)
        assert Newton(partial=True).specialize(run).init(run).kernels.size == 12
        again, cold = (solve(task, Newton(partial=True), start=s) for s in (first, None))
        assert again.objective == pytest.approx(cold.objective, rel=2e-3)

    @pytest.mark.parametrize(("p", "stage"), [(1, "working set of"), (1.33, "sample of")])
    def test_steps_on_a_part_are_heard(self, p, stage):
        task, heard, kept = problem(BANKS["masked"], PNormBall(p)), [], []
        listeners = {"watch": heard.append, "keep": lambda best, record: kept.append(best)}
        whole = solve(task, Newton(partial=True), tol=1e-6, **listeners)
        inside = [record for record in heard if record.stage]
        assert len(heard) == len(kept) == len(inside) + len(whole.history)
        assert len(inside) > 2
        assert all(record.stage.startswith(stage) for record in inside)
        for best in kept:  # of the whole problem, whatever is known of it
            assert (best.weights.shape, best.beta.shape) == ((120,), (1, 36))
            assert task.certificate(best.weights, best.beta).gap <= 1.01 * best.certificate.gap
        stopped = solve(task, Newton(partial=True), tol=1e-6, watch=lambda record: True)
        assert stopped.status.name == "STOPPED"
        fresh = task.certificate(stopped.weights, stopped.beta)
        assert stopped.duality_gap == pytest.approx(fresh.gap, rel=1e-6)

    def test_float32_that_is_too_coarse(self):
        bank = make_bank(MASKED, X, dtype=np.float32)
        for p in (1, 1.33):
            run = RunState(problem(bank, PNormBall(p)))
            result = drive(Newton(partial=True, streamed=True), run, tol=1e-8)
            assert run.bank.dtype == np.float64
            assert result.status.name == "OPTIMAL"

    @pytest.mark.parametrize("p", [1, 1.33])
    def test_interrupted_in_any_pass(self, monkeypatch, p):
        calls, limit = [], []

        def counted(name):
            method = getattr(MaskedBank, name)

            def call(self, *arguments):
                calls.append(name)
                if len(calls) == limit[-1]:
                    raise KeyboardInterrupt
                return method(self, *arguments)

            monkeypatch.setattr(MaskedBank, name, call)

        for name in ("combine", "quadratic_forms", "newton_sums", "directional_forms", "products"):
            counted(name)
        for last in (1, 2, 3, 5, 8, 12, 17):
            calls.clear()
            limit.append(last)
            task = problem(BANKS["masked"], PNormBall(p))
            result = solve(task, Newton(streamed=True, partial=True), tol=1e-9)
            assert result.status.name == "INTERRUPTED"
            assert (result.weights >= 0).all()
            assert result.weights.shape == (120,)
            assert result.duality_gap == pytest.approx(
                task.certificate(result.weights, result.beta).gap, rel=1e-6
            )


class TestChoice:
    def test_by_size(self, monkeypatch, lower):
        task = RunState(problem(BANKS["masked"], PNormBall(1.33)))
        assert not Newton()._streams(task)
        lower(held_product_bytes=0)
        monkeypatch.setattr(newton, "_sizes", lambda run: (16 * 120 * 36, 8 * 36**2))
        assert Newton()._streams(task)
        assert not Newton()._streams(RunState(problem(BANKS["mixed"], PNormBall(1.33))))
        newton_alone = Newton()
        assert newton_alone.specialize(task) is newton_alone

    def test_memory_budget_counts_what_is_held(self, lower):
        lower(held_product_bytes=2**17)
        bank = make_bank(masked_kernels(3000), X, n_jobs=1)
        task = RunState(problem(bank, PNormBall(1.33)), memory_budget=2**18)
        assert isinstance(choose_solver("auto", task), Newton)
        assert not Newton(streamed=False).fits(task)
        tight = RunState(problem(bank, PNormBall(1.33)), memory_budget=2**14)
        assert not Newton().fits(tight)

    @pytest.mark.parametrize("p", [1.0, 1.33])
    def test_memory_does_not_hold_the_products(self, lower, p):
        lower(held_product_bytes=2**20)
        A, b = toy(60)
        kernels = masked_kernels(20_000)
        MKLClassifier(masked_kernels(2000), p=p, n_jobs=2).fit(A, b)  # compiles
        tracemalloc.start()
        clf = MKLClassifier(kernels, p=p, n_jobs=2).fit(A, b)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert clf.result_.status.name == "OPTIMAL"
        assert peak < 8 * 20_000 * 60
        assert clf.score(A, b) > 0.8
        assert clf.kernel_names_[3] == kernels.names()[3]


def test_names_are_made_when_asked_for(monkeypatch):
    names = MASKED.names()
    assert len(names) == 120
    assert names[-1] == MASKED[119].name()
    assert names[2:5] == [MASKED[k].name() for k in (2, 3, 4)]
    assert names == list(names)
    assert names != list(names)[:-1]
    assert MASKED.names([f"column {f}" for f in range(4)])[0] != names[0]
    with pytest.raises(IndexError):
        names[120]
