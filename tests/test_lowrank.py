"""Low-rank kernels: factors against kernels, their bank against the dense one, solvers against each
other.
"""

import errno
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLOneClass, MKLRegressor, load, lowrank, path, save
from manykernels.banks import FactorBank, ResolvedKernels, make_bank
from manykernels.banks.lowrank import basis
from manykernels.banks.lowrank.basis import reduced
from manykernels.kernels import (
    RBF,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
)
from manykernels.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.lowrank import (
    IncompleteCholesky,
    Nystroem,
    RandomFourier,
    coefficient_bound,
    quality,
)
from manykernels.lowrank.maps import mapped
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.result import Status
from manykernels.run_state import RunState
from manykernels.solvers import GFB, Interior, Newton, PrimalNewton, solve

X, Y = toy(80)
NUMBERS = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
KERNELS = KernelCollection(MIXED)
ON_POINTS = ResolvedKernels.from_data(KERNELS, X)
EXACT = make_bank(KERNELS, X)
FULL = Nystroem(rank=80, cutoff=0.0).fit(ON_POINTS, X, dtype=np.float64)
SHORT = Nystroem(rank=12).fit(ON_POINTS, X, dtype=np.float64)
FIRST = PNormBall(1)
LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.2), Squared()]


def targets(loss):
    return Y if loss.separates else NUMBERS


class TestFactors:
    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("outputs", [1, 3])
    def test_the_bank_of_all_ranks_is_the_exact_one(self, outputs, threads, rng):
        bank = Nystroem(rank=80, cutoff=0.0).fit(ON_POINTS, X, dtype=np.float64, n_jobs=threads)
        beta, weights = rng.standard_normal((outputs, 80)), rng.random(bank.m)
        beta[:, ::3] = 0.0
        for name, args in {
            "combine": (weights,),
            "quadratic_forms": (beta,),
            "products": (beta,),
            "decision": (weights, beta),
            "columns": ([3, 7],),
            "diagonal": (),
            "combined_diagonal": (weights,),
        }.items():
            np.testing.assert_allclose(
                getattr(bank, name)(*args), getattr(EXACT, name)(*args), atol=1e-6, err_msg=name
            )
        new = rng.standard_normal((9, 4))
        np.testing.assert_allclose(
            bank.cross(new).decision(weights, beta),
            EXACT.cross(new).decision(weights, beta),
            atol=1e-5,
        )
        np.testing.assert_allclose(
            bank.combine(weights, [4, 2]), EXACT.combine(weights, [4, 2]), atol=1e-6
        )

    def test_the_gram_matrix_of_factors(self, rng, monkeypatch):
        scale = np.where(rng.random(80) < 0.5, rng.random(80), 0.0)
        expected = SHORT.factors.T @ (scale[:, None] * SHORT.factors)
        np.testing.assert_allclose(SHORT.gram(scale), expected, atol=1e-10)
        monkeypatch.setattr("manykernels.banks.lowrank.factors.ROWS", 7)
        np.testing.assert_allclose(SHORT.gram(scale), expected, atol=1e-10)

    @pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "leverage"])
    def test_more_landmarks_are_better(self, landmarks, rng):
        points = rng.standard_normal((400, 4))
        kernels = ResolvedKernels.from_data(KernelCollection([RBF(0.05), RBF(0.3)]), points)
        errors = [
            quality(Nystroem(r, landmarks).fit(kernels, points), kernels, points).max()
            for r in (10, 40, 160)
        ]
        assert errors[0] > 2 * errors[1] > 4 * errors[2]

    def test_the_best_approximation_of_a_rank(self, rng):
        points = rng.standard_normal((200, 4))
        kernels = ResolvedKernels.from_data(KernelCollection([RBF(0.3)]), points)
        bank = Nystroem(rank=20, n_landmarks=200).fit(kernels, points, dtype=np.float64)
        K = kernels.between(points, points).columns(np.arange(200))[0]
        values = np.linalg.eigvalsh(K)[::-1]
        assert bank.width == 20
        assert np.linalg.norm(K - bank.factors @ bank.factors.T) == pytest.approx(
            np.linalg.norm(values[20:]), rel=1e-6
        )

    def test_the_cutoff_drops_what_is_small(self, rng):
        points = rng.standard_normal((300, 2))
        kernels = ResolvedKernels.from_data(KernelCollection([RBF(0.01), Linear()]), points)
        widths = [
            np.diff(Nystroem(100, cutoff=c).fit(kernels, points).offsets)
            for c in (1e-12, 1e-7, 1e-2)
        ]
        assert widths[0][0] > widths[1][0] > widths[2][0]
        assert widths[1][1] == 2
        assert quality(Nystroem(100).fit(kernels, points), kernels, points).max() < 1e-5

    def test_random_fourier_features(self, rng):
        points = rng.standard_normal((200, 3))
        kernels = ResolvedKernels.from_data(
            KernelCollection([RBF(0.2), RBF(1.0, features=[0, 2])]), points, normalize="trace"
        )
        errors = [
            quality(RandomFourier(r).fit(kernels, points), kernels, points).max()
            for r in (50, 5000)
        ]
        assert errors[0] > 4 * errors[1]
        assert errors[1] < 0.05
        with pytest.raises(ValueError, match="use Nystroem"):
            RandomFourier(10).fit(ON_POINTS, X)

    def test_incomplete_cholesky_of_precomputed_kernels(self, rng):
        grams = EXACT.columns(np.arange(80))
        index = np.arange(80)[:, None]
        kernels = ResolvedKernels.from_data(
            KernelCollection([Precomputed(K) for K in grams]), index
        )
        assert (
            quality(IncompleteCholesky(80, tol=0.0).fit(kernels, index), kernels, index).max()
            < 1e-5
        )
        few = IncompleteCholesky(15).fit(kernels, index)
        assert np.diff(few.offsets).max() <= 15
        assert np.diff(few.offsets)[2] == 4  # the linear kernel of four features
        np.testing.assert_allclose(few.features.transform(index), few.factors)
        with pytest.raises(ValueError, match="landmarks='uniform'"):
            Nystroem(5, "kmeans").fit(kernels, index)

    def test_masked_kernels(self, rng):
        masks = rng.random((6, 4)) < 0.6
        masks[:, 0] = True
        collection = KernelCollection.masked_rbf(np.full(6, 0.2), masks)
        kernels = ResolvedKernels.from_data(collection, X, normalize="trace")
        bank = Nystroem(80, cutoff=0.0).fit(kernels, X, dtype=np.float64)
        np.testing.assert_allclose(
            bank.columns([1]), make_bank(collection, X, normalize="trace").columns([1]), atol=1e-8
        )

    @pytest.mark.parametrize(
        "approximation", [Nystroem(20), IncompleteCholesky(20), RandomFourier(20)], ids=repr
    )
    def test_subset_has_the_chosen_kernels(self, approximation):
        gaussians = KernelCollection({"a": [RBF(0.1), RBF(0.4, features=1)], "b": RBF(2.0)})
        points = ResolvedKernels.from_data(gaussians, X)
        bank = approximation.fit(points, X, dtype=np.float64)
        some, chosen = bank.take_kernels([2, 0], 3.0), [2, 0]
        assert some.names == [bank.names[k] for k in chosen]
        assert list(some.groups) == ["b", "a"]
        np.testing.assert_allclose(
            some.columns([4, 9]), 3.0 * bank.columns([4, 9])[chosen], atol=1e-12
        )
        new = X[:5] + 0.1
        np.testing.assert_allclose(
            some.cross(new).columns([4, 9]),
            3.0 * bank.cross(new).columns([4, 9])[chosen],
            atol=1e-12,
        )

    def test_a_map_of_features_holds_its_kernels(self):
        for approximation in (Nystroem(10), IncompleteCholesky(10)):
            features = approximation.fit(ON_POINTS, X).features
            assert list(features.kernels) == list(EXACT.kernels)
            assert list(features.names) == list(EXACT.names)
            np.testing.assert_array_equal(features.scales, EXACT.scales)
            assert features.is_sum
            assert not features.needs_grams

    @pytest.mark.parametrize("approximation", [Nystroem(5), IncompleteCholesky(5)])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
    def test_kernels_that_are_zero(self, approximation, loss, tmp_path):
        """They have a column of zeros, and no weight where another kernel is of use."""
        points = np.column_stack([np.zeros(80), X])
        for kernels in ([Linear(features=0)], [Linear(features=0), RBF(0.5)]):
            model = MKLClassifier(kernels, loss=loss, approximation=approximation)
            model.fit(points, Y)
            assert model.result_.status is Status.OPTIMAL
            assert (np.diff(model.bank_.offsets) > 0).all()
            assert np.isfinite(model.decision_function(points)).all()
            save(model, tmp_path / "model.mk")
            again = load(tmp_path / "model.mk").decision_function(points)
            np.testing.assert_allclose(again, model.decision_function(points))

    def test_normalizations(self):
        for normalize in ("diagonal", "trace", "cosine", None):
            bank = Nystroem(80, cutoff=0.0).fit(
                ResolvedKernels.from_data(KERNELS, X, normalize=normalize), X, dtype=np.float64
            )
            expected = make_bank(KERNELS, X, normalize=normalize).columns([0, 5])
            np.testing.assert_allclose(bank.columns([0, 5]), expected, atol=1e-6 * expected.max())
        with pytest.raises(ValueError, match="center"):
            ResolvedKernels.from_data(KERNELS, X, normalize="center")


class TestMemory:
    def test_too_much_is_said_before_the_work(self, monkeypatch):
        monkeypatch.setattr(lowrank.Nystroem, "features", lambda *_: pytest.fail("work was begun"))
        with pytest.raises(ValueError, match=r"may take 0 MB \(and some 0 s.*cache_size.*folder"):
            Nystroem(rank=50).fit(ON_POINTS, X, memory_budget=1000)

    def test_factors_in_a_file_without_a_name(self, tmp_path):
        held = Nystroem(rank=20).fit(ON_POINTS, X)
        mapped = Nystroem(rank=20, folder=tmp_path).fit(ON_POINTS, X, memory_budget=1000)
        assert isinstance(mapped.factors, np.memmap)
        np.testing.assert_array_equal(mapped.factors, held.factors)
        assert list(tmp_path.iterdir()) == []
        options = {"solver": "interior", "p": 2.0}
        clf = MKLClassifier(
            MIXED, approximation=Nystroem(20, folder=tmp_path), cache_size=0.001, **options
        ).fit(X, Y)
        same = MKLClassifier(MIXED, approximation=Nystroem(20), **options).fit(X, Y)
        np.testing.assert_allclose(clf.decision_function(X), same.decision_function(X), atol=1e-6)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("shape", [(7, 3), (1000, 400)])
    @pytest.mark.parametrize("reserves", [True, False])
    def test_room_is_made_where_the_system_cannot_reserve_it(
        self, tmp_path, monkeypatch, reserves, shape
    ):
        if not reserves:  # as on macOS and Windows
            monkeypatch.delattr("os.posix_fallocate", raising=False)
        array = mapped(tmp_path, shape, np.float32)
        assert array.shape == shape
        assert not array.any()
        array[-1] = 3.0
        np.testing.assert_array_equal(array[-1], np.full(shape[1], 3.0))
        assert list(tmp_path.iterdir()) == []

    def test_a_file_system_that_cannot_reserve_room(self, tmp_path, monkeypatch):
        def refused(*_):
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr("os.posix_fallocate", refused, raising=False)
        assert mapped(tmp_path, (50, 2), np.float64).shape == (50, 2)

        def full(*_):
            raise OSError(errno.ENOSPC, "full")

        monkeypatch.setattr("os.posix_fallocate", full, raising=False)
        with pytest.raises(OSError, match="full"):
            mapped(tmp_path, (50, 2), np.float64)

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            Nystroem(rank=20, folder=tmp_path / "none").fit(ON_POINTS, X, memory_budget=1000)

    def test_interrupted_factors_leave_nothing(self, tmp_path, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(lowrank.LandmarkMap, "block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Nystroem(rank=20, folder=tmp_path).fit(ON_POINTS, X, memory_budget=1000)
        assert list(tmp_path.iterdir()) == []

    def test_progress_only_if_asked(self, capsys):
        Nystroem(5).fit(ON_POINTS, X)
        assert capsys.readouterr().out == ""
        Nystroem(5).fit(ON_POINTS, X, verbose=2)
        assert "100 %" in capsys.readouterr().out


def on_factors(loss):
    """The solver on factors that suits a loss."""
    return Interior() if isinstance(loss, (Hinge, EpsilonInsensitive, OneClass)) else PrimalNewton()


class TestOnFactors:
    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    @pytest.mark.parametrize("C", [0.3, 30.0])
    @pytest.mark.parametrize(
        "regularizer",
        [FIRST, PNormBall(1.1), PNormBall(2), PNormBall(np.inf), SquaredPNorm(1.5, 0.4)],
        ids=repr,
    )
    def test_agrees_with_the_exact_solvers(self, loss, C, regularizer):
        cost = np.full(80, C)
        if np.isinf(getattr(regularizer, "p", 1)):
            other = "spg"
        else:
            other = "newton"
        tol = 1e-5
        found = solve(
            Problem(SHORT, targets(loss), cost, regularizer, loss=loss), on_factors(loss), tol=tol
        )
        exact = solve(
            Problem(SHORT, targets(loss), cost, regularizer, loss=loss), _solver(other), tol=1e-6
        )
        assert found.status is Status.OPTIMAL, str(found)
        assert found.objective == pytest.approx(exact.objective, rel=2 * tol)
        fresh = Problem(SHORT, targets(loss), cost, regularizer, loss=loss).certificate(
            found.weights, found.beta
        )
        assert abs(fresh.gap) <= 1.01 * tol

    @pytest.mark.parametrize("loss", LOSSES[:3], ids=repr)
    def test_several_outputs_and_costs(self, loss):
        y = np.stack([Y, np.where(X[:, 0] > 0, 1.0, -1.0)])
        cost = np.random.default_rng(0).choice([0.0, 1.0, 5.0], (2, 80))
        problem = Problem(SHORT, y, cost, PNormBall(1.5), loss=loss)
        found = solve(problem, on_factors(loss), tol=1e-4)
        exact = solve(Problem(SHORT, y, cost, PNormBall(1.5), loss=loss), Newton(), tol=1e-5)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(exact.objective, rel=2e-4)
        assert not found.beta[cost == 0.0].any()

    def test_one_class(self):
        cost = np.ones(80)
        found = solve(
            Problem(SHORT, np.ones(80), cost, PNormBall(np.inf), loss=OneClass(0.2)),
            Interior(),
            tol=1e-4,
        )
        exact = solve(
            Problem(SHORT, np.ones(80), cost, PNormBall(np.inf), loss=OneClass(0.2)),
            _solver("spg"),
            tol=1e-5,
        )
        assert found.objective == pytest.approx(exact.objective, abs=2e-4 * abs(exact.objective))

    @pytest.mark.parametrize("p", [1.1, 2])
    def test_large_costs_in_float32(self, p):
        """Coefficients of a thousand that nearly cancel, and wide kernels with hardly anything to
        tell them apart.
        """
        A, b = toy(300)
        kernels = KernelCollection([RBF(1 / (2 * w * w)) for w in (1.0, 3.0, 10.0, 30.0, 100.0)])
        bank = Nystroem(20).fit(ResolvedKernels.from_data(kernels, A), A, dtype=np.float32)
        flipped = np.where(np.arange(300) % 7 == 0, -b, b)
        found = solve(
            Problem(bank, flipped, np.full(300, 1000.0), PNormBall(p)), Interior(), tol=1e-3
        )
        assert found.status is Status.OPTIMAL
        assert found.n_iter < 40

    def test_one_class_only_has_no_coefficients(self):
        y = np.stack([Y, np.ones(80)])
        found = solve(Problem(SHORT, y, np.ones(80), PNormBall(2)), Interior(), tol=1e-4)
        assert found.status is Status.OPTIMAL
        assert not found.beta[1].any()

    def test_starts_from_an_earlier_result(self):
        for loss in LOSSES[:3]:
            first = solve(
                Problem(SHORT, Y, np.ones(80), PNormBall(2), loss=loss), on_factors(loss), tol=1e-4
            )
            again = Problem(SHORT, Y, np.ones(80), PNormBall(2), loss=loss)
            assert solve(again, on_factors(loss), tol=2e-4, start=first).n_iter == 0

    def test_what_does_not_fit(self):
        for solver in (PrimalNewton(), Interior()):
            with pytest.raises(ValueError, match="give an approximation"):
                solve(Problem(EXACT, Y, np.ones(80), PNormBall(2)), solver)
            with pytest.raises(ValueError, match="closed-form weights"):
                solve(Problem(SHORT, Y, np.ones(80), L1()), solver)
        with pytest.raises(ValueError, match="use solver='interior'"):
            solve(Problem(SHORT, Y, np.ones(80), PNormBall(2)), PrimalNewton())
        for loss in LOSSES:
            if isinstance(on_factors(loss), PrimalNewton):
                with pytest.raises(ValueError, match="use solver='primal'"):
                    solve(
                        Problem(SHORT, targets(loss), np.ones(80), PNormBall(2), loss=loss),
                        Interior(),
                    )


class TestReduced:
    KERNELS = KernelCollection([RBF(1 / (2 * w * w)) for w in 10.0 ** np.linspace(0, 2, 20)])

    def banks(self, n=400, rank=20):
        A, b = toy(n)
        plain = Nystroem(rank).fit(ResolvedKernels.from_data(self.KERNELS, A), A, dtype=np.float32)
        return plain, reduced(plain), A, b

    def test_is_smaller_and_the_same_to_rounding(self):
        plain, small, *_ = self.banks()
        assert small.points.width < 0.5 * plain.width == 0.5 * small.width
        np.testing.assert_allclose(small.whole(), plain.whole(), atol=2e-5)

    def test_holds_what_a_sample_does_not_show(self, monkeypatch):
        monkeypatch.setattr(basis, "TOLERANCES", replace(basis.TOLERANCES, sample=150))
        narrow = KernelCollection([RBF(1 / (2 * w * w)) for w in 10.0 ** np.linspace(-2, 1, 40)])
        A = toy(2000)[0]
        # each landmark has directions of its own
        plain = Nystroem(10).fit(ResolvedKernels.from_data(narrow, A), A, dtype=np.float32)
        small = reduced(plain)
        assert small is not plain
        left = np.linalg.norm(small.whole() - plain.whole(), axis=1)
        assert left.max() < 3e-5 * np.linalg.norm(plain.whole(), axis=1).max()

    def test_what_training_points_do_not_span_stays(self):
        plain, *_ = self.banks(n=60, rank=60)
        assert reduced(plain) is plain

    def test_half_of_the_space_serves_the_beginning(self, lower):
        lower(shared_basis_columns=40)
        _, small, _, b = self.banks()
        problem = Problem(small, b, np.full(400, 100.0), PNormBall(1.5))
        run, solver, places = RunState(problem), Interior(), []
        state = solver.init(run)
        while state.iterate.certificate.gap > 1e-5 and len(places) < 40:
            places.append(state.at.bank.points.width)
            state = solver.step(run, state, 1e-5)
        assert places[0] == small.points.width // 2
        assert places[-1] == small.points.width
        assert problem.certificate(*state.iterate.point).gap <= 1e-5

    def test_what_is_not_worth_it_stays(self):
        plain, *_ = self.banks(rank=5)
        assert reduced(plain) is plain
        plain, small, *_ = self.banks()
        # no room for both
        assert reduced(plain, plain.factors.nbytes + small.points.factors.nbytes) is plain
        for value in (0.0, np.nan):
            empty = FactorBank(np.full_like(plain.factors, value), plain.offsets, plain.features)
            assert reduced(empty) is empty
        exact = Nystroem(20).fit(ResolvedKernels.from_data(self.KERNELS, X), X, dtype=np.float64)
        assert reduced(exact) is exact

    @pytest.mark.parametrize("held", [2**29, 0])
    def test_agrees_with_its_factors(self, held, monkeypatch):
        monkeypatch.setattr(basis, "TOLERANCES", replace(basis.TOLERANCES, held_bytes=held))
        _, small, *_ = self.banks()
        plain = FactorBank(small.whole(), small.offsets, small.features)
        rng = np.random.default_rng(0)
        weights, beta, v = (
            rng.random(20),
            rng.standard_normal((2, 400)),
            rng.standard_normal((2, small.width)),
        )

        def close(name, *args):
            one, other = (getattr(bank, name)(*args) for bank in (small, plain))
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5 * np.abs(other).max())

        for name, *args in (
            ("dot", v),
            ("correlate", beta),
            ("gram", beta[0] ** 2),
            ("combine", weights),
            ("combine", weights, [3, 1]),
            ("quadratic_forms", beta),
            ("products", beta),
            ("products", beta[0]),
            ("columns", [4, 7]),
            ("diagonal",),
            ("combined_diagonal", weights),
            ("decision", weights, beta),
            ("coefficients", weights, beta),
        ):
            close(name, *args)
        some = np.arange(0, 400, 7)
        np.testing.assert_allclose(small.take_points(some).whole(), plain.factors[some])

    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    def test_predictions(self, loss, lower):
        _, _, A, b = self.banks()
        new = toy(100, seed=5)[0]
        options = {
            "kernels": self.KERNELS,
            "p": 1.5,
            "C": 10.0,
            "loss": loss,
            "tol": 1e-5,
            "approximation": Nystroem(20),
        }
        small = MKLClassifier(**options).fit(A, b)
        lower(shared_basis_columns=10**6)
        plain = MKLClassifier(**options).fit(A, b)
        assert small.result_.objective == pytest.approx(plain.result_.objective, rel=1e-3)
        np.testing.assert_allclose(
            small.decision_function(new), plain.decision_function(new), atol=0.02
        )
        fresh = small.kernel_contributions_
        np.testing.assert_allclose(fresh, plain.kernel_contributions_, atol=0.01)


class TestGFB:
    @pytest.mark.parametrize(
        ("inner", "tol", "limit"),
        [("split", 1e-7, 20_000), ("merged", 1e-7, 20_000), ("interior", 1e-6, 100)],
    )
    @pytest.mark.parametrize("p", [1.1, 2])
    def test_agrees_with_newton(self, inner, tol, limit, p):
        cost = np.full(80, 1.0)
        found = solve(
            Problem(SHORT, Y, cost, PNormBall(p)),
            GFB(inner, inner_tol=tol, inner_iter=limit),
            tol=1e-2,
        )
        exact = solve(Problem(SHORT, Y, cost, PNormBall(p)), Newton(), tol=1e-6)
        assert found.status is Status.OPTIMAL, str(found)
        assert found.objective == pytest.approx(exact.objective, rel=1.1e-2)
        assert found.certificate.dual <= exact.objective

    def test_loose_inner_problems_are_tightened(self):
        found = solve(
            Problem(SHORT, Y, np.ones(80), PNormBall(2)), GFB("merged", inner_tol=1e-2), tol=1e-2
        )
        assert found.status is Status.OPTIMAL

    @pytest.mark.parametrize("loss", [SquaredHinge(), Squared()], ids=repr)
    def test_interior_point_with_bounds_at_infinity(self, loss):
        problem = Problem(SHORT, targets(loss), np.ones(80), PNormBall(2), loss=loss)
        found = solve(problem, GFB("interior", inner_tol=1e-8), tol=1e-4)
        exact = solve(
            Problem(SHORT, targets(loss), np.ones(80), PNormBall(2), loss=loss),
            PrimalNewton(),
            tol=1e-6,
        )
        assert found.objective == pytest.approx(exact.objective, rel=2e-4)

    def test_what_does_not_fit(self):
        with pytest.raises(ValueError, match="give an approximation"):
            solve(Problem(EXACT, Y, np.ones(80), PNormBall(2)), GFB())
        with pytest.raises(ValueError, match="without a kink"):
            solve(
                Problem(SHORT, NUMBERS, np.ones(80), PNormBall(2), loss=EpsilonInsensitive(0.1)),
                GFB("interior"),
            )
        with pytest.raises(ValueError, match="inner='fast' is not known"):
            GFB("fast")


class TestEstimators:
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    @pytest.mark.parametrize("p", [1, 1.33, 2])
    @pytest.mark.parametrize("solver", ["on factors", "auto"])
    def test_full_rank_is_exact(self, loss, p, solver):
        A, b = toy(100)
        options = {"loss": loss, "p": p, "C": 3.0, "tol": 1e-5}
        exact = MKLClassifier(MIXED, **options).fit(A, b)
        if solver == "on factors":
            solver = "interior" if loss == "hinge" else "primal"
        low = MKLClassifier(
            MIXED, **options, approximation=Nystroem(100, cutoff=0.0), solver=solver
        ).fit(A, b)
        assert low.result_.objective == pytest.approx(exact.result_.objective, rel=3e-5)
        new = np.random.default_rng(5).standard_normal((50, 4))
        np.testing.assert_allclose(
            low.decision_function(new), exact.decision_function(new), atol=0.03
        )

    def test_more_columns_than_points(self):
        A, b = toy(200)
        with pytest.warns(
            UserWarning, match="more than the 200 points: without an approximation"
        ) as caught:
            MKLClassifier(MIXED, C=1.0, approximation=Nystroem(150)).fit(A, b)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MKLClassifier([RBF(0.1), RBF(1.0)], C=1.0, approximation=Nystroem(50)).fit(A, b)

    def test_the_model_does_not_hold_the_data(self):
        A, b = toy(2000)
        clf = MKLClassifier([RBF(0.1), RBF(1.0)], approximation=Nystroem(20), C=1.0).fit(A, b)
        assert not hasattr(clf.bank_, "factors")
        A[:] = np.nan
        assert np.isfinite(clf.decision_function(toy(50, seed=3)[0])).all()
        again = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(
            again.predict(toy(50, seed=3)[0]), clf.predict(toy(50, seed=3)[0])
        )
        landmarks = clf.bank_.landmarks
        assert landmarks.shape == (20, 4)
        assert not np.shares_memory(landmarks, A)

    def test_classes_after_a_stop_have_an_svm(self):
        labels, calls = np.where(X[:, 0] > 1, 2, np.where(Y > 0, 1, 0)), []

        def stop(record):
            calls.append(record)
            return len(calls) > 3

        options = {
            "share_weights": False,
            "approximation": Nystroem(40),
            "callbacks": [stop],
            "tol": 1e-9,
        }
        model = MKLClassifier(MIXED, **options).fit(X, labels)
        assert model.result_.status is Status.STOPPED
        assert model.result_.beta.any(axis=1).all()

    def test_several_classes(self):
        labels = np.where(X[:, 0] > 1, 2, np.where(Y > 0, 1, 0))
        for share_weights in (True, False):
            for multiclass in ("ovr", "ovo"):
                options = {
                    "share_weights": share_weights,
                    "multiclass": multiclass,
                    "p": 1.5,
                    "tol": 1e-4,
                }
                low = MKLClassifier(MIXED, approximation=Nystroem(80, cutoff=0.0), **options).fit(
                    X, labels
                )
                exact = MKLClassifier(MIXED, **options).fit(X, labels)
                assert low.result_.objective == pytest.approx(exact.result_.objective, rel=5e-4)
                assert np.mean(low.predict(X) == exact.predict(X)) > 0.95

    def test_other_estimators(self):
        low = MKLRegressor(
            MIXED, p=2.0, C=10.0, approximation=Nystroem(80, cutoff=0.0), tol=1e-4
        ).fit(X, NUMBERS)
        exact = MKLRegressor(MIXED, p=2.0, C=10.0, tol=1e-4).fit(X, NUMBERS)
        np.testing.assert_allclose(low.predict(X), exact.predict(X), atol=0.02)
        assert MKLOneClass(MIXED, approximation=Nystroem(20)).fit(X).predict(X).shape == (80,)

    def test_paths_are_warm(self):
        found = path(MKLClassifier(MIXED, approximation=Nystroem(20)), X, Y, C=[0.1, 1.0, 10.0])
        assert len(found) == 3

    def test_one_kernel_is_nystroem_and_a_linear_svm(self):
        A, b = toy(300)
        low = MKLClassifier([RBF(0.5)], p=1, C=2.0, approximation=Nystroem(30), tol=1e-5).fit(A, b)
        V = low.bank_.transform(A)
        svc = SVC(kernel="precomputed", C=2.0, tol=1e-6).fit(V @ V.T, b)
        np.testing.assert_allclose(
            low.decision_function(A), svc.decision_function(V @ V.T), atol=5e-3
        )

    def test_precomputed_kernels_by_index(self):
        grams, index = EXACT.columns(np.arange(80)), np.arange(80)[:, None]
        low = MKLClassifier(
            [Precomputed(K) for K in grams], approximation=IncompleteCholesky(80, tol=0.0), tol=1e-4
        ).fit(index, Y)
        exact = MKLClassifier(MIXED, tol=1e-4).fit(X, Y)
        assert low.result_.objective == pytest.approx(exact.result_.objective, rel=1e-3)
        np.testing.assert_allclose(
            low.decision_function(index), exact.decision_function(X), atol=0.05
        )

    def test_what_does_not_go_together(self):
        with pytest.raises(ValueError, match="not a fitted bank"):
            MKLClassifier(EXACT, approximation=Nystroem(5)).fit(X, Y)
        with pytest.raises(ValueError, match="does not go with combination"):
            MKLClassifier(combination="product", approximation=Nystroem(5)).fit(X, Y)
        for options in ({"rank": 0}, {"landmarks": "best"}, {"n_landmarks": 3}, {"cutoff": 1.0}):
            with pytest.raises(ValueError, match=next(iter(options))):
                Nystroem(**options)


def test_proposition_two_holds():
    kernels = KernelCollection([RBF(4.0), RBF(8.0)])
    exact, cost = make_bank(kernels, X), np.ones(80)
    points = ResolvedKernels.from_data(kernels, X)
    for rank in (40, 70, 79):
        low = Nystroem(rank, cutoff=0.0).fit(points, X, dtype=np.float64)
        weights = np.array([0.5, 0.5])
        runs = [RunState(Problem(bank, Y, cost, PNormBall(1))) for bank in (exact, low)]
        beta = [run.evaluate(weights, np.zeros((1, 80)), 1e-9).beta for run in runs]
        bound = coefficient_bound(exact, low, weights, cost)
        assert np.linalg.norm(beta[0] - beta[1]) <= bound < np.inf
    assert coefficient_bound(SHORT, SHORT, np.ones(8), cost) == np.inf


def _solver(name):
    from manykernels.solvers import choose_solver

    return choose_solver(name)


@pytest.mark.parametrize("kernel", [RBF(0.03), Laplacian(0.1), Linear(), Polynomial(2)], ids=repr)
def test_sparse_new_points_of_dense_landmarks(kernel):
    """Dense points are moved to their middle for the digits of distances, sparse ones are not."""
    points = np.eye(6)[:, [0, 1, 2, 3]] + 0.5
    bank = Nystroem(6, cutoff=0.0).fit(
        ResolvedKernels.from_data(KernelCollection([kernel]), points), points, dtype=np.float64
    )
    new = np.zeros((3, 4))  # so empty that they stay sparse
    np.testing.assert_allclose(
        bank.features.block(sparse.csr_array(new)), bank.features.block(new), atol=1e-6
    )
