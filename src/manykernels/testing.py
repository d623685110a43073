"""Public checks for people who write their own parts.

A check tries the laws that solvers rely on, on random points, and raises an AssertionError that
names the first law broken.
"""

import numpy as np

DIRECTIONS = 20  # random points or moves per law, besides one along each entry
ROUNDING = 1e-9  # relative error that is put down to rounding
STEP = 1e-5  # relative step of finite differences
NUMERIC = 1e-6  # relative error of finite differences
NOISE = 1e-13  # relative error of a value or of weights; large exponents cost digits


def check_regularizer(regularizer, m=5, seed=0):
    """Check that a regularizer of m kernel weights keeps the laws that solvers rely on.

    Start and projections are feasible, the gradient is that of the value, and what else it has
    (``prox``, ``conjugate``, ``weights``, ``curvature``) belongs to the same value. Laws are tried
    at random points, so passing is evidence, not proof.

    Parameters
    ----------
    regularizer : Regularizer
    m : int
        Number of kernels, for a regularizer that does not prescribe it.
    seed : int
        Of the random points.

    Raises
    ------
    AssertionError
        Which says what is wrong, by how much, and in which entry it is worst.
    """
    rng = np.random.default_rng(seed)
    _check_start(regularizer, m)
    _check_projection(regularizer, m, rng)
    _check_gradient(regularizer, m, rng)
    if hasattr(regularizer, "prox"):
        _check_prox(regularizer, m, rng)
    if hasattr(regularizer, "conjugate"):
        _check_conjugate(regularizer, m, rng)
    if hasattr(regularizer, "curvature") and regularizer.smooth:
        _check_curvature(regularizer, m, rng)


def check_combination(combination, X=None, seed=0):
    """Check that a combination is a kernel for every weight, and that its gradient is that of its
    `gram`.

    Parameters
    ----------
    combination : Combination
    X : (n, d) array, optional
        Points to try it on; a dozen random ones by default.
    seed : int
        Of the random points, weights and coefficients.

    Raises
    ------
    AssertionError
        Which says what is wrong, by how much, and in which entry it is worst.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 4)) if X is None else np.asarray(X, dtype=float)
    fitted = combination.fit(X)
    for scale in (0.1, 1.0):
        weights = scale * (0.1 + rng.random(fitted.m))
        _check_gram(fitted, weights)
        _check_slopes(fitted, weights, rng)


def _check_gram(fitted, weights):
    X, n = fitted.X, len(fitted.X)
    K = np.asarray(fitted.gram(weights, X, X))
    _require(
        K.shape == (n, n),
        f"gram of {n} points with themselves should have shape ({n}, {n}), but has {K.shape}.",
    )
    _require(np.isfinite(K).all(), "gram has entries that are not finite.")
    _agree("gram", K, K.T, ROUNDING, "its transpose")
    lowest = np.linalg.eigvalsh(0.5 * (K + K.T))[0]
    _require(
        lowest >= -1e-9 * np.abs(K).max(),
        f"gram is not positive semidefinite: its smallest eigenvalue is {lowest:.1e}.",
    )
    rows, cols = np.arange(n)[::2], np.arange(n)[1:]
    _agree(
        "gram of some points",
        np.asarray(fitted.gram(weights, X[rows], X[cols])),
        K[np.ix_(rows, cols)],
        ROUNDING,
        "the whole",
    )
    _agree(
        "diagonal",
        _vector("diagonal", fitted.diagonal(weights, X), n),
        np.diagonal(K),
        ROUNDING,
        "gram",
    )


def _check_slopes(fitted, weights, rng):
    beta = rng.standard_normal((2, len(fitted.X)))
    slopes = _vector("gradient(weights, beta)", fitted.gradient(weights, beta), fitted.m)

    def form(d):
        return float(np.sum((beta @ np.asarray(fitted.gram(d, fitted.X, fitted.X))) * beta))

    steps = STEP * np.diag(weights)
    numeric = np.array(
        [(form(weights + step) - form(weights - step)) / (2.0 * step.max()) for step in steps]
    )
    size = (
        float(np.sum(np.abs(beta)) ** 2)
        * np.abs(np.asarray(fitted.gram(weights, fitted.X, fitted.X))).max()
    )
    noise = NOISE * size / (STEP * weights.min())
    _agree(
        "gradient(weights, beta)",
        slopes,
        numeric,
        NUMERIC,
        "finite differences of beta' gram beta",
        noise,
    )


def _check_start(r, m):
    d = r.start(m)
    _feasible("start(m)", r, d, m)
    _agree(
        "project(start(m)), which is feasible and should stay what it is,",
        r.project(d),
        d,
        ROUNDING,
    )


def _check_projection(r, m, rng):
    for scale in (0.1, 1.0, 10.0):
        for _ in range(DIRECTIONS):
            z = scale * rng.standard_normal(m)
            x = r.project(z)
            _feasible("project(d)", r, x, m)
            _agree("project(project(d))", r.project(x), x, ROUNDING)
            _nearest(z, x, _random_feasible(r, m, rng, scale))


def _nearest(z, x, other):
    """``(z - x)'(other - x) <= 0``: from the projection x of z, no feasible point lies in a
    direction that leads nearer.
    """
    products = (z - x) * (other - x)
    worst = products.argmax()
    _require(
        products.sum() <= ROUNDING * np.square(z).sum(),
        f"project(d) is not the nearest feasible point; the worst is entry {worst}, which goes "
        f"from {z[worst]:.6g} to "
        f"{x[worst]:.6g}.",
    )


def _check_gradient(r, m, rng):
    for scale in (0.1, 1.0, 10.0):
        d = _random_inside(r, m, rng, scale)
        gradient = _vector("gradient(d)", r.gradient(d), m)
        exact, numeric = np.zeros(m), np.zeros(m)
        for k in np.flatnonzero(d):
            step = STEP * d[k] * np.eye(m)[k]
            # where all feasible weights have something in common (a sum, being equal), only
            # feasible moves count
            ahead, behind = r.project(d + step), r.project(d - step)
            exact[k] = gradient @ (ahead - behind) / (2.0 * step[k])
            numeric[k] = (r.value(ahead) - r.value(behind)) / (2.0 * step[k])
        noise = NOISE * abs(r.value(d)) / (STEP * d[d > 0.0].min(initial=np.inf))
        _agree("gradient(d)", exact, numeric, NUMERIC, "finite differences of value", noise)


def _check_prox(r, m, rng):
    for step in (1e-2, 1.0, 30.0):
        z = 2.0 * rng.standard_normal(m)
        x = r.prox(z, step)
        _feasible("prox(d, step)", r, x, m)

        def objective(x, z=z, step=step):
            return 0.5 * np.sum(np.square(x - z)) + step * r.value(x)

        value = objective(x)
        for size in (1e-1, 1e-2, 1e-3, 1e-4):
            for move in size * _directions(m, rng):
                gain, worst = value - objective(r.project(x + move)), np.abs(move).argmax()
                _require(
                    gain <= 1e-12 * (1.0 + abs(value)),
                    f"prox(d, step={step:g}) is not a minimizer: its objective falls by {gain:.1e} "
                    f"when entry {worst}, "
                    f"{x[worst]:.6g}, moves by {move[worst]:.1e}.",
                )


def _check_conjugate(r, m, rng):
    for unit in _units(r, m, rng):
        s = unit * rng.exponential(size=m)
        s = r.dual_scale(s) ** 2 * s
        phi = r.conjugate(s)
        _require(
            np.isfinite(phi),
            f"conjugate(s) is {phi} at s = {s}, where dual_scale promises a finite value.",
        )
        for scale in (0.1, 1.0, 10.0):
            for _ in range(DIRECTIONS):
                _fenchel_young(r, s, phi, _random_feasible(r, m, rng, scale))
        if hasattr(r, "weights"):
            d = r.weights(s)
            _feasible("weights(s)", r, d, m)
            _fenchel_young(r, s, phi, d, equality=True)


def _check_curvature(r, m, rng):
    for unit in _units(r, m, rng):
        s = unit * (0.5 + rng.random(m))
        J = r.curvature(s)
        matrix = np.diag(_vector("curvature(s).diagonal", J.diagonal, m)) + J.factor * np.outer(
            J.vector, J.vector
        )
        steps = STEP * np.diag(s)
        numeric = np.stack(
            [(r.weights(s + step) - r.weights(s - step)) / (2.0 * step.max()) for step in steps],
            axis=1,
        )
        noise = NOISE * r.weights(s).max() / steps.max(axis=0).min()
        _agree("curvature(s)", matrix, numeric, NUMERIC, "finite differences of weights", noise)


def _fenchel_young(r, s, phi, d, equality=False):
    """``d's/2 - r(d) <= phi(s)``, with equality at the weights."""
    linear, penalty = 0.5 * float(d @ s), r.value(d)
    excess, slack = linear - penalty - phi, ROUNDING * (abs(linear) + abs(penalty) + abs(phi))
    worst = (d * s).argmax()
    where = (
        f"the largest product is that of entry {worst}, d = {d[worst]:.6g} and s = {s[worst]:.6g}"
    )
    _require(
        excess <= slack,
        f"conjugate(s) is too small by {excess:.1e}: it is {phi:.6g}, but d's/2 - value(d) reaches "
        f"{linear - penalty:.6g} at a "
        f"feasible d; {where}.",
    )
    _require(
        not equality or excess >= -slack,
        f"conjugate(s) is not attained at weights(s): it is {phi:.6g}, but d's/2 - value(d) is "
        f"{linear - penalty:.6g} there; "
        f"{where}.",
    )


def _random_feasible(r, m, rng, scale):
    """Feasible weights, of which few or many are zero."""
    return r.project(scale * rng.exponential(size=m) * (rng.random(m) < rng.random()))


def _random_inside(r, m, rng, scale):
    """Feasible weights away from zero and, if it is a ball, from the boundary."""
    return r.project(0.25 * (r.start(m) + r.project(scale * (0.1 + rng.random(m)))))


def _units(r, m, rng):
    """Sizes of quadratic forms that matter to this regularizer: at an optimum they are twice the
    gradient, or less.
    """
    for scale in (0.1, 1.0, 10.0):
        unit = 2.0 * r.gradient(_random_inside(r, m, rng, scale)).max()
        yield unit if unit > 0.0 else scale


def _directions(m, rng):
    """Along every entry, up and down, and some at random, (2m + DIRECTIONS, m)."""
    return np.concatenate([np.eye(m), -np.eye(m), rng.standard_normal((DIRECTIONS, m))])


def _feasible(what, r, d, m):
    d = _vector(what, d, m)
    worst = d.argmin()
    _require(
        d[worst] >= 0.0, f"{what} has negative weights; the worst is entry {worst}, {d[worst]:.6g}."
    )
    value, worst = r.value(d), d.argmax()
    _require(
        np.isfinite(value),
        f"{what} is not feasible: value is {value}; its largest entry is {worst}, {d[worst]:.6g}.",
    )


def _vector(what, x, m):
    """x as an array, if it is a vector of m finite numbers."""
    x = np.asarray(x)
    _require(
        x.shape == (m,),
        f"{what} should have shape ({m},), one entry per kernel, but has shape {x.shape}.",
    )
    finite = np.isfinite(x)
    worst = finite.argmin()
    _require(finite[worst], f"{what} is not finite: entry {worst} is {x[worst]}.")
    return x


def _agree(what, x, expected, tol, source="what it should be", noise=0.0):
    """Every entry to a relative tol and the noise; entries below a thousandth of the largest count
    as that large.
    """
    error, size = np.maximum(np.abs(x - expected) - noise, 0.0), np.abs(expected)
    relative = error / np.maximum(
        np.maximum(size, 1e-3 * size.max(initial=0.0)), np.finfo(float).tiny
    )
    worst = np.unravel_index(relative.argmax(), relative.shape)
    entry = ", ".join(map(str, worst))
    _require(
        relative[worst] <= tol,
        f"{what} disagrees with {source}; the worst is entry {entry}, {x[worst]:.8g} against "
        f"{expected[worst]:.8g}.",
    )


def _require(condition, message):
    """What ``assert`` does, also where Python leaves assertions out."""
    if not condition:
        raise AssertionError(message)
