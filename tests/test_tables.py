"""Sums of many kernels of one distance by tables, distances by bits, and weights from a sample."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from manykernels import MKLClassifier, MKLRegressor
from manykernels._loops import tables
from manykernels._loops.rbf import differing_bits, packed
from manykernels.banks import SumBank, make_bank
from manykernels.banks.families import Tile
from manykernels.banks.families.distances import Bits, Differences, Dots, make_distances
from manykernels.banks.families.gaussians import GaussianTable, Sizes
from manykernels.kernels import RBF, KernelCollection, Laplacian, Linear
from manykernels.problem import Problem
from manykernels.regularizers import Curvature, GeneralizedKL, PNormBall
from manykernels.result import Status
from manykernels.run_state import Point, RunState
from manykernels.solvers import SPG, GroupLasso, Newton, choose_solver, drive, solve
from manykernels.solvers.mixtures import Mixtures
from manykernels.solvers.wrappers import FromPoints

ERROR = {np.float32: 3e-7, np.float64: 3e-14}
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@DTYPES
class TestGaussianTable:
    def made(self, dtype):
        rng = np.random.default_rng(0)
        factors = np.append(1.0, 10.0 ** rng.uniform(0, 6, 29))
        distances = (10.0 ** rng.uniform(-12, 4, (9, 70))).astype(dtype)
        distances[0, :3] = 0.0, 1e15, np.finfo(dtype).tiny
        values = np.exp2(-factors[:, None, None] * distances.astype(float))
        return GaussianTable(factors, dtype), distances, values

    def test_look_up(self, dtype):
        table, distances, values = self.made(dtype)
        weights = np.random.default_rng(1).random(30)
        out = np.zeros(distances.shape, dtype)
        tables.look_up(distances, table.table(weights), table.grid, 70, out)
        np.testing.assert_allclose(
            out, np.tensordot(weights, values, 1), atol=ERROR[dtype] * weights.sum()
        )

    def test_only_the_triangle_is_visited(self, dtype):
        table, distances, values = self.made(dtype)
        out = np.zeros(distances.shape, dtype)
        tables.look_up(distances, table.table(np.ones(30)), table.grid, 20, out)
        counted = np.arange(70) <= 20 + np.arange(9)[:, None]
        np.testing.assert_allclose(
            out, np.where(counted, values.sum(axis=0), 0.0), atol=30 * ERROR[dtype]
        )

    @pytest.mark.parametrize("held", [2**23, 0])
    def test_deposit_is_the_transpose(self, dtype, held, monkeypatch):
        sizes = Sizes(held_entries=held, entries_at_once=20_000)
        monkeypatch.setattr("manykernels.banks.families.gaussians.SIZES", sizes)
        table, distances, values = self.made(dtype)
        B = np.random.default_rng(2).standard_normal(distances.shape).astype(dtype)
        moments = np.zeros(table.nodes.shape)
        tables.deposit(distances.copy(), B, table.grid, 70, moments)
        expected = np.tensordot(values, B.astype(float), 2)
        np.testing.assert_allclose(
            table.gather(moments), expected, atol=ERROR[dtype] * np.abs(B).sum()
        )
        beta = B[:2]
        rows = np.zeros((2, 9, *table.nodes.shape))
        tables.deposit_rows(distances.copy(), beta, table.grid, rows)
        expected = np.moveaxis(values @ beta.T.astype(float), 2, 1)
        np.testing.assert_allclose(
            table.gather(rows), expected, atol=ERROR[dtype] * np.abs(beta).sum()
        )

    def test_nothing_deposited(self, dtype):
        table = self.made(dtype)[0]
        assert np.array_equal(table.gather(np.zeros(table.nodes.shape)), np.zeros(30))


@DTYPES
@pytest.mark.parametrize("kernel", [RBF, Laplacian])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_banks_with_many_widths(dtype, kernel, form, rng):
    """All that a bank computes, against the kernels one by one."""
    X = np.round(rng.random((90, 4)), 2) * (rng.random((90, 4)) < 0.7)
    kernels = [kernel(gamma) for gamma in np.geomspace(1e-3, 50, 17)]
    bank = make_bank(KernelCollection(kernels), form(X), dtype=dtype, storage="fly")
    assert bank.families[0]._table is not None
    grams = np.stack([k.block(X, X) for k in kernels])
    weights, beta = rng.random(17), rng.standard_normal((2, 90))
    error = 100 * ERROR[dtype]
    np.testing.assert_allclose(bank.combine(weights), np.tensordot(weights, grams, 1), atol=error)
    np.testing.assert_allclose(
        bank.combine(2 * weights, [5, 3]),
        2 * np.tensordot(weights, grams[:, [5, 3]], 1),
        atol=error,
    )
    np.testing.assert_allclose(
        bank.quadratic_forms(beta), np.einsum("ti,kij,tj->k", beta, grams, beta), atol=100 * error
    )
    np.testing.assert_allclose(
        bank.products(beta), np.einsum("kij,tj->kti", grams, beta), atol=10 * error
    )
    change, J = rng.standard_normal((2, 90)), Curvature(rng.random(17), -0.3, rng.random(17))
    for ours, plain in zip(
        bank.newton_sums(weights, beta, J), SumBank.newton_sums(bank, weights, beta, J), strict=True
    ):
        np.testing.assert_allclose(ours, plain, atol=1e4 * ERROR[dtype])
    for ours, plain in zip(
        bank.directional_forms(beta, change),
        SumBank.directional_forms(bank, beta, change),
        strict=True,
    ):
        np.testing.assert_allclose(ours, plain, atol=1e4 * ERROR[dtype])
    new = bank.cross(form(X[:7]))
    np.testing.assert_allclose(
        new.combine(weights), np.tensordot(weights, grams[:, :7], 1), atol=1e-10
    )
    some = bank.take_points(np.array([4, 8, 60]))
    np.testing.assert_allclose(
        some.combine(weights),
        np.tensordot(weights, grams, 1)[np.ix_([4, 8, 60], [4, 8, 60])],
        atol=error,
    )


class TestDistances:
    TILE = Tile(np.array([0, 3, 4]), np.arange(1, 30), 29)

    @pytest.mark.parametrize("width", [1, 63, 64, 65, 300])
    def test_bits(self, width, rng):
        A = rng.random((11, width)) < 0.4
        out = np.empty((11, 11), np.float32)
        differing_bits(packed(A), np.ascontiguousarray(packed(A).T), 0.5, out)
        assert np.array_equal(out, 0.5 * cdist(A, A, "cityblock"))

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize(
        ("X", "narrowest", "kind"),
        [
            (np.random.default_rng(0).random((40, 6)) < 0.5, 1.0, Bits),
            (np.random.default_rng(0).random((40, 6)), 1.0, Dots),
            (1e6 + np.random.default_rng(0).random((40, 6)), 1.0, Dots),
            (1e6 * np.random.default_rng(0).random((40, 6)), 1.0, Differences),
        ],
    )
    def test_the_way_that_fits(self, X, narrowest, kind, form):
        points = form(X.astype(float))
        distances = make_distances(points, points, 2.0, narrowest, np.float64)
        assert type(distances) is kind
        expected = (
            2.0
            * cdist(X.astype(float), X.astype(float), "sqeuclidean")[
                np.ix_(self.TILE.rows, self.TILE.cols)
            ]
        )
        np.testing.assert_allclose(distances.tile(self.TILE), expected, rtol=1e-9, atol=1e-9)

    def test_sparse_points_in_many_dimensions_stay_sparse(self):
        X = sparse.random(50, 5000, density=1e-3, random_state=0, format="csr")
        distances = make_distances(X, X, 1.0, 1.0, np.float64)
        assert sparse.issparse(distances.right)
        expected = cdist(X.toarray(), X.toarray(), "sqeuclidean")[
            np.ix_(self.TILE.rows, self.TILE.cols)
        ]
        np.testing.assert_allclose(distances.tile(self.TILE), expected, atol=1e-12)

    def test_new_points_that_are_not_binary(self, rng):
        train = (rng.random((30, 5)) < 0.5).astype(float)
        distances = make_distances(rng.random((6, 5)), train, 1.0, 1.0, np.float64)
        assert type(distances) is Dots


def data(n=600):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    return X, np.where(X[:, 0] ** 2 + 0.5 * X[:, 1] > 0.8 + 0.3 * rng.standard_normal(n), 1.0, -1.0)


KERNELS = KernelCollection([RBF(0.1), RBF(1.0), RBF(1.0, features=0), RBF(3.0, features=2)])


class TestSample:
    @pytest.mark.parametrize(
        ("p", "solver"),
        [(1.33, GroupLasso()), (1, SPG()), (1.33, Mixtures()), (1, Mixtures()), (2, Newton())],
    )
    def test_same_optimum(self, p, solver):
        X, y = data()
        problem = lambda: Problem(make_bank(KERNELS, X), y, np.ones(len(y)), PNormBall(p))  # noqa: E731
        sampled = solve(problem(), FromPoints(solver, lambda run: Newton(), size=150), tol=1e-4)
        plain = solve(problem(), solver, tol=1e-4)
        assert sampled.status is Status.OPTIMAL
        assert sampled.objective == pytest.approx(plain.objective, rel=2e-4)

    def test_auto_begins_with_a_sample_of_many_points(self, lower):
        X, y = data()
        assert not isinstance(
            choose_solver(
                "auto", RunState(Problem(make_bank(KERNELS, X), y, np.ones(600), PNormBall(2)))
            ),
            FromPoints,
        )
        lower(points_for_sample=500)
        assert isinstance(
            choose_solver(
                "auto", RunState(Problem(make_bank(KERNELS, X), y, np.ones(600), PNormBall(2)))
            ),
            FromPoints,
        )
        clf = MKLClassifier(KERNELS, p=1.5).fit(X, y)
        assert clf.result_.status is Status.OPTIMAL
        MKLRegressor(KERNELS, p=1.5).fit(X, X[:, 0])
        MKLClassifier(KERNELS, p=1.5).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))

    def test_mixtures_find_kernels_that_a_start_leaves_out(self):
        X, y = data()
        problem = Problem(make_bank(KERNELS, X), y, np.full(600, 10.0), PNormBall(1))
        best = solve(problem, Newton(), tol=1e-5)
        lightest = best.weights == best.weights.min()
        run = RunState(problem, start=Point(lightest.astype(float), np.zeros((1, 600))))
        found = drive(Mixtures(), run, tol=1e-4)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(best.objective, rel=2e-4)
        assert problem.certificate(found.weights, found.beta).gap <= 1.1e-4
        with pytest.raises(ValueError, match="memory budget"):
            Mixtures().check(RunState(problem, memory_budget=1000))
        with pytest.raises(ValueError, match="balls"):
            Mixtures().check(RunState(replace(problem, regularizer=GeneralizedKL())))

    def test_rare_classes_are_in_the_sample(self):
        X, _ = data()
        y = np.where(np.arange(600) < 9, 1.0, -1.0)
        seen = []
        solver = FromPoints(
            GroupLasso(), lambda run: seen.append(run.problem.targets) or Newton(), size=100
        )
        solve(Problem(make_bank(KERNELS, X), y, np.ones(600), PNormBall(2)), solver)
        assert (seen[0] == 1).sum() in (1, 2)

    def test_interrupt_in_the_sample_leaves_a_model(self):
        X, y = data()

        class Stopped(Newton):
            def step(self, run, state, tol):
                raise KeyboardInterrupt

        problem = Problem(make_bank(KERNELS, X), y, np.ones(600), PNormBall(2))
        result = solve(problem, FromPoints(GroupLasso(), lambda run: Stopped(), size=100), tol=1e-6)
        assert result.status is Status.INTERRUPTED
        assert result.beta.any()
        assert np.isfinite(result.certificate.primal)
        again = problem.certificate(result.weights, result.beta)
        assert again.primal == pytest.approx(result.certificate.primal, rel=1e-6)

    def test_points_without_a_cost_are_not_in_the_sample(self):
        X, y = data(60)
        cost = np.zeros(60)
        cost[[np.argmax(y), np.argmin(y), 7]] = 1.0
        problem = Problem(make_bank(KERNELS, X), y, cost, PNormBall(2))
        assert (
            solve(problem, FromPoints(SPG(), lambda run: Newton(), size=10)).status
            is Status.OPTIMAL
        )

    def test_without_a_step_there_is_no_sample(self):
        X, y = data()

        def refused(run):
            raise AssertionError("no step is to be taken")

        result = solve(
            Problem(make_bank(KERNELS, X), y, np.ones(600), PNormBall(2)),
            FromPoints(SPG(), refused, size=100),
            max_iter=0,
        )
        assert result.counters.svm_solves == 1


class TestEdges:
    def test_widths_too_far_apart_for_a_table(self, rng):
        X = rng.standard_normal((12, 3))
        kernels = [RBF(gamma) for gamma in (1e-15, 3e-15, 1.0, 1e15)]
        bank = make_bank(KernelCollection(kernels), X, dtype=np.float32, storage="fly")
        np.testing.assert_allclose(bank.combine([0, 0, 1, 0]), kernels[2].block(X, X), atol=1e-6)

    def test_many_kernels_none_of_which_is_left(self):
        clf = MKLClassifier([Linear()] * 120, p=2).fit(np.zeros((12, 2)), [0, 1] * 6)
        assert np.isfinite(clf.decision_function(np.zeros((2, 2)))).all()

    def test_several_outputs_of_many_widths_fit_into_memory(self):
        X = np.random.default_rng(0).random((1800, 2))
        bank = make_bank(
            KernelCollection([RBF(gamma) for gamma in np.geomspace(0.1, 10, 120)]), X, storage="fly"
        )
        problem = Problem(
            bank,
            np.where(np.arange(10)[:, None] == np.arange(1800) % 10, 1.0, -1.0),
            np.ones(1800),
            PNormBall(2),
        )
        assert Newton().fits(RunState(problem))

    def test_pickles_hold_no_tables(self, rng):
        X = rng.random((50, 2))
        clf = MKLClassifier([RBF(gamma) for gamma in np.geomspace(0.1, 10, 500)], p=2).fit(
            X, X[:, 0] > 0.5
        )
        kept = pickle.dumps(clf)
        assert len(kept) < 3e6
        assert np.array_equal(pickle.loads(kept).predict(X), clf.predict(X))
