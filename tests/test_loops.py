"""The compiled loops against their NumPy twins, and where they are kept."""

import importlib.util
import shutil
import warnings
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from manykernels._canonical import scramble, taken
from manykernels._loops import exponentials, jit, keys, rbf
from manykernels._loops import sums as factor_loops
from manykernels._loops.keys import add_keys
from manykernels._loops.smo import Bounds, position_of_max, smo
from manykernels._loops.smo_mkl import _best_step, _cubic_root, _slope
from manykernels._loops.sums import add_spread
from manykernels.regularizers import GeneralizedKL, PNormBall, SquaredPNorm
from reference import gaussian_chain, project_box_plane, row_keys, smo_by_gradient

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


def feature_pairs(dtype, b=7, c=37, chains=3):
    rng = np.random.default_rng(0)
    rows, cols = (
        rng.standard_normal((chains, b)).astype(dtype),
        rng.standard_normal((chains, c)).astype(dtype),
    )
    t = np.square(rows.astype(float)[:, :, None] - cols.astype(float)[:, None, :])
    return rbf.Pairs(rows, cols, np.empty((0, 0), dtype), np.empty(0, dtype)), t


def distance_pairs(dtype, b=7, c=37, chains=3):
    rng = np.random.default_rng(1)
    distances, factors = (
        rng.exponential(size=(b, c)).astype(dtype),
        np.array([1e-6, 0.3, 40.0], dtype)[:chains],
    )
    none = np.empty((0, 0), dtype)
    return rbf.Pairs(none, none, distances, factors), factors.astype(float)[
        :, None, None
    ] * distances


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [feature_pairs, distance_pairs])
@pytest.mark.parametrize("length", [5, 20])
class TestChains:
    def test_combine(self, dtype, pairs, length):
        tile, t = pairs(dtype)
        weights = np.random.default_rng(2).random((3, length)).astype(dtype)
        weights[1] = 0
        out = np.zeros((7, 37), dtype)
        rbf.combine(tile, weights, 37, out)
        expected = sum(np.tensordot(weights[r], gaussian_chain(t[r], length), 1) for r in range(3))
        np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype] * weights.sum())

    def test_combine_visits_the_lower_triangle_only(self, dtype, pairs, length):
        tile, _ = pairs(dtype)
        out, full = np.zeros((7, 37), dtype), np.zeros((7, 37), dtype)
        weights = np.ones((3, length), dtype)
        rbf.combine(tile, weights, 4, out)
        rbf.combine(tile, weights, 37, full)
        i, j = np.indices(out.shape)
        assert (out[j > 4 + i] == 0).all()
        np.testing.assert_allclose(out[j <= 4 + i], full[j <= 4 + i], rtol=1e-6)

    def test_forms(self, dtype, pairs, length):
        tile, t = pairs(dtype)
        B = np.random.default_rng(3).standard_normal((7, 37)).astype(dtype)
        out = np.zeros((3, length))
        rbf.forms(tile, B, 37, out)
        expected = np.stack(
            [np.tensordot(gaussian_chain(t[r], length), B.astype(float), 2) for r in range(3)]
        )
        np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype] * np.abs(B).sum())

    def test_products(self, dtype, pairs, length):
        tile, t = pairs(dtype)
        b = np.random.default_rng(4).standard_normal(37).astype(dtype)
        out = np.zeros((3, length, 7))
        rbf.products(tile, b, out)
        expected = np.stack([gaussian_chain(t[r], length) @ b.astype(float) for r in range(3)])
        np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype] * np.abs(b).sum())


def test_float32_chain_keeps_its_digits_through_twenty_squarings():
    """Squaring exp(-t) itself would be wrong by several percent here."""
    t = np.geomspace(1e-9, 1e-5, 1000).astype(np.float32)
    out = np.zeros((1, 1000), np.float32)
    none = np.empty((0, 0), np.float32)
    weights = np.zeros((1, 20), np.float32)
    weights[0, 19] = 1
    rbf.combine(rbf.Pairs(none, none, t[None], np.ones(1, np.float32)), weights, 1000, out)
    np.testing.assert_allclose(out[0], np.exp2(-(2.0**19) * t.astype(float)), atol=3e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_exponentials(dtype):
    rng = np.random.default_rng(0)
    exponents, tol = rng.exponential(3, (10, 50)).astype(dtype), 50 * TOLERANCE[dtype]
    u = 1 - np.exp2(-exponents.astype(float))
    weights, factors, beta = (
        rng.standard_normal(shape).astype(dtype) for shape in (50, (2, 10), (2, 5))
    )
    beta[1, 3] = 0
    rows, cols = np.tril_indices(5, -1)
    combined, forms, products = np.ones(10), np.ones((2, 50)), np.ones((2, 5, 50))
    exponentials.combine_rows(exponents.copy(), weights, combined)
    exponentials.add_rows(exponents.copy(), factors, forms)
    exponentials.multiply_rows(exponents.copy(), rows, cols, beta, True, products)
    np.testing.assert_allclose(combined, 1 - u @ weights, atol=tol)
    np.testing.assert_allclose(forms, 1 - factors @ u, atol=tol)
    U = np.zeros((5, 5, 50))
    U[rows, cols] = U[cols, rows] = u
    np.testing.assert_allclose(products, 1 - np.einsum("ijk,cj->cik", U, beta), atol=tol)
    swept = np.ones(10), np.ones((2, 5, 50))
    exponentials.sweep_rows(exponents.copy(), rows, cols, weights, beta, *swept)
    np.testing.assert_array_equal(swept[0], combined)
    np.testing.assert_array_equal(swept[1], products)
    below = np.ones((2, 5, 50))
    exponentials.multiply_rows(exponents.copy(), rows, cols, beta, False, below)
    U[cols, rows] = 0
    np.testing.assert_allclose(below, 1 - np.einsum("ijk,cj->cik", U, beta), atol=tol)


@pytest.mark.parametrize("n", [1, 5, 256, 257, 1000])
def test_position_of_max(n):
    rng = np.random.default_rng(n)
    for values in (
        rng.standard_normal(n),
        -rng.random(n) - 1e300 * (rng.random(n) < 0.5),
        np.zeros(n),
    ):
        assert values[position_of_max(values)] == values.max()


def test_a_point_at_the_origin_is_not_its_own_partner():
    """Its curvature is zero, so that the rounding of its slopes, which differ by the kink, would be
    the largest gain of all.
    """
    rng, K = np.random.default_rng(0), np.diag([0.0, 1.0])
    for _ in range(100):
        linear, start = rng.normal(size=2), rng.uniform(0.1, 0.5)
        kink, beta = np.full(2, rng.uniform(0.01, 0.2)), np.array([-start, start])
        bounds = Bounds(-np.ones(2), np.ones(2), kink, np.zeros(2))
        steps, _ = smo(K, np.diag(K).copy(), bounds, beta, K @ beta - linear, 1e-6, 1000)
        assert steps < 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smo_finds_the_optimum(dtype):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 30))
    K = np.ascontiguousarray((A @ A.T / 30).astype(dtype))
    linear, lower, upper, none = (
        rng.standard_normal(20),
        -rng.random(20),
        rng.random(20),
        np.zeros(20),
    )
    beta = project_box_plane(np.zeros(20), lower, upper)
    F = K @ beta - linear
    steps, violation = smo(
        K, np.diagonal(K).astype(float), Bounds(lower, upper, none, none), beta, F, 1e-9, 100_000
    )
    expected = smo_by_gradient(K.astype(float), linear, lower, upper)
    assert violation < 1e-9
    assert 0 < steps < 100_000
    assert abs(beta.sum()) < 1e-12
    assert (beta >= lower).all()
    assert (beta <= upper).all()
    np.testing.assert_allclose(beta, expected, atol=1e-6)
    np.testing.assert_allclose(F, K @ beta - linear, atol=1e-6 if dtype == np.float32 else 1e-12)


def test_smo_obeys_its_limit_and_can_go_on():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((50, 60))
    K, linear = A @ A.T / 60, np.where(rng.random(50) < 0.5, 1.0, -1.0)
    lower, upper = np.where(linear > 0, 0.0, -1.0), np.where(linear > 0, 1.0, 0.0)
    bounds, whole, parts = (
        Bounds(lower, upper, np.zeros(50), np.zeros(50)),
        np.zeros(50),
        np.zeros(50),
    )
    F_whole, F_parts = -linear, -linear.copy()
    total, _ = smo(K, np.diagonal(K).copy(), bounds, whole, F_whole.copy(), 1e-6, 10**6)
    done = 0
    for _ in range(10**4):
        steps, _ = smo(K, np.diagonal(K).copy(), bounds, parts, F_parts, 1e-6, 7)
        assert steps <= 7
        done += steps
        if steps < 7:
            break
    assert done == total
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("seed", range(50))
def test_cubic_root(seed):
    rng = np.random.default_rng(seed)
    # the derivative of a concave quartic -(1/4) sum (s + 2bx + ax^2)^2, positive at zero
    a, b, s = 10.0 ** rng.uniform(-8, 3, 5), rng.standard_normal(5), rng.exponential(size=5)
    s = np.maximum(s, b * b / a)  # forms are not negative anywhere
    c0, c1, c2, c3 = -(s @ b), -(s @ a + 2 * b @ b), -3 * a @ b, -(a @ a)
    c0 = abs(c0) + 0.1
    roots = np.roots([c3, c2, c1, c0])
    root = roots[np.argmin(np.abs(roots.imag))].real
    found = _cubic_root(c0, c1, c2, c3, 2 * root)
    assert found == pytest.approx(root, rel=1e-6)
    values = [abs(np.polyval([c3, c2, c1, c0], x)) for x in (found, root)]
    assert values[0] <= max(values[1], 1e-9 * abs(c0))


def test_a_pair_goes_to_the_maximum_along_its_line(rng):
    for law in (
        PNormBall(1.2).compiled_conjugate,
        PNormBall(4).compiled_conjugate,
        SquaredPNorm(2, 0.3).compiled_conjugate,
        SquaredPNorm(1.5).compiled_conjugate,
        GeneralizedKL(0.2).compiled_conjugate,
    ):
        for _ in range(20):
            a, s = rng.exponential(size=(2, 6))
            b = np.sqrt(a * s) * rng.uniform(-1, 1, 6)
            scratch = np.empty((3, 6))
            linear, ridge = rng.exponential() + 1e-3, rng.choice([0.0, 0.7])
            at_zero, _ = _slope(law, s, a, b, linear, ridge, 0.0, *scratch)
            linear += max(0.0, 0.1 - at_zero)
            for highest in (1e-3, 0.5, 50.0):
                x = _best_step(law, s, a, b, linear, ridge, highest, rng.exponential(), *scratch)
                slope, _ = _slope(law, s, a, b, linear, ridge, x, *scratch)
                assert 0.0 < x <= highest
                assert slope >= 0.0 if x == highest else abs(slope) <= 1e-7 * max(1.0, linear)


class TestFactors:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_sums_are_in_float64(self, dtype):
        rng = np.random.default_rng(0)
        V = rng.standard_normal((50, 7)).astype(dtype)
        beta, v = 1e6 * rng.standard_normal((2, 50)), rng.standard_normal((3, 7))
        beta[:, ::3] = 0.0
        out, scores = np.ones((2, 7)), np.empty((3, 50))
        factor_loops.correlate(V, beta, out)
        factor_loops.dot(V, v, scores)
        np.testing.assert_allclose(out, 1.0 + beta @ V.astype(float), rtol=1e-9)
        np.testing.assert_allclose(scores, v @ V.T.astype(float), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_spread_over_rows_and_columns(dtype):
    rng = np.random.default_rng(0)
    rows, cols = np.array([0, 3, 4]), np.array([1, 2, 5, 6])
    K, out = rng.standard_normal((3, 4)).astype(dtype), rng.standard_normal((6, 7)).astype(dtype)
    left, right = rng.random(3).astype(dtype), rng.random(4).astype(dtype)
    expected = out.copy()
    expected[np.ix_(rows, cols)] += K * np.outer(left, right)
    add_spread(K, rows, cols, left, right, out)
    np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype])


def test_keys_of_rows():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 5)) < 0.3, rng.standard_normal((300, 5)), 0.0)
    X[3, 2], X[4, 2], X[5] = np.nan, -np.nan, -0.0
    salts, keys = scramble(np.arange(5, dtype=np.uint64)), np.ones(300, np.uint64)
    add_keys(X.view(np.uint64), salts, keys)
    np.testing.assert_array_equal(keys, row_keys(X, salts, scramble) + np.uint64(1))


def test_rows_are_taken_on_all_threads():
    rng = np.random.default_rng(0)
    X, rows = rng.random((40_000, 3)), rng.permutation(40_000)[:33_000]
    for table in (X, np.asfortranarray(X), X.astype(np.float32)):
        np.testing.assert_array_equal(taken(table, rows), table[rows])


class TestKeptOnDisk:
    """Loops of a file of its own, so that nothing has been compiled yet; a plain file in the place
    of a folder is what nobody can write into, not even an administrator.
    """

    @pytest.fixture(autouse=True)
    def _of_this_test(self, tmp_path, monkeypatch):
        self.wall, self.source = tmp_path / "wall", tmp_path / "loops" / "keys.py"
        self.wall.touch()
        self.source.parent.mkdir()
        shutil.copy(keys.__file__, self.source)
        monkeypatch.setattr(jit.LoopCache, "warned", False)
        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        self.user = SimpleNamespace(user_cache_dir=str(self.wall / "user"))
        monkeypatch.setattr(numba.core.caching, "AppDirs", lambda **_: self.user)

    def imported(self):
        """The loops, as a new process would have them."""
        spec = importlib.util.spec_from_file_location("manykernels._loops.copy", self.source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def check(self, module):
        """Warnings on the way to what a loop gives, which is right."""
        bits, out = np.arange(6, dtype=np.uint64).reshape(2, 3), np.zeros(2, np.uint64)
        salts = np.zeros(3, np.uint64)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            module.add_keys(bits, salts, out)
        np.testing.assert_array_equal(out, row_keys(bits.view(float), salts, scramble))
        return [str(one.message) for one in told]

    def test_no_folder_can_be_written(self, monkeypatch):
        """Loops are compiled all the same, and one warning says how to keep them."""
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(self.wall / "given"))
        (self.source.parent / "__pycache__").touch()
        module = self.imported()
        (told,) = self.check(module)
        assert "set NUMBA_CACHE_DIR" in told
        assert str(self.wall / "given") in told
        assert self.check(self.imported()) == []

    def test_nobody_without_a_home_writes_into_the_working_directory(self, monkeypatch, tmp_path):
        self.user.user_cache_dir = "~/.cache/numba"  # where the home is not known
        monkeypatch.chdir(tmp_path)
        (self.source.parent / "__pycache__").touch()
        assert len(self.check(self.imported())) == 1
        assert not (tmp_path / "~").exists()

    def test_a_folder_that_cannot_be_written_any_more(self, tmp_path, monkeypatch):
        folder = tmp_path / "given"
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
        module = self.imported()
        shutil.rmtree(folder)
        folder.touch()
        assert len(self.check(module)) == 1

    def test_a_disk_that_is_full(self, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        module = self.imported()
        monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
        (told,) = self.check(module)
        assert "No space left on device" in told

    def test_files_that_cannot_be_read(self):
        self.check(self.imported())
        for file in (self.source.parent / "__pycache__").glob("*.nb*"):
            file.write_bytes(b"")
        module = self.imported()
        assert len(self.check(module)) == 1
        assert sum(module.add_keys.stats.cache_hits.values()) == 0

    @pytest.mark.parametrize("writable", [True, False])
    def test_a_folder_that_was_filled_before(self, writable, tmp_path, monkeypatch):
        """As while an image was built: it is read even where it cannot be written."""
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "given"))
        assert self.check(self.imported()) == []
        monkeypatch.setattr(jit, "can_be_written", lambda folder: writable)
        module = self.imported()
        assert self.check(module) == []
        assert sum(module.add_keys.stats.cache_hits.values()) == 1
        # beside the file nothing is looked for where the given folder can be written
        assert len(module.add_keys._cache.places) == (1 if writable else 3)
