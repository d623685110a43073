"""The laws of a regularizer."""

import numpy as np

from ..regularizers import Regularizer
from .laws import NOISE, NUMERIC, ROUNDING, STEP, agree, require, vector

DIRECTIONS = 20  # random points or moves per law, besides one along each entry


def check_regularizer(regularizer: Regularizer, m: int = 5, seed: int = 0) -> None:
    """Check that a regularizer of m kernel weights keeps the laws that solvers rely on.

    Start and projections are feasible, the gradient is that of the value, and what else it has
    (``hessian``, ``prox``, ``conjugate``, ``weights``, ``curvature``) belongs to the same value.
    Laws are tried at random points, so passing is evidence, not proof.

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
    if regularizer.has_hessian:
        _check_hessian(regularizer, m, rng)
    if regularizer.has_prox:
        _check_prox(regularizer, m, rng)
    if regularizer.has_conjugate:
        _check_conjugate(regularizer, m, rng)
    if regularizer.has_curvature and regularizer.smooth:
        _check_curvature(regularizer, m, rng)


def _check_start(r, m):
    d = r.start(m)
    _feasible("start(m)", r, d, m)
    agree(
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
            agree("project(project(d))", r.project(x), x, ROUNDING)
            _nearest(z, x, _random_feasible(r, m, rng, scale))


def _nearest(z, x, other):
    """``(z - x)'(other - x) <= 0``: from the projection x of z, no feasible point lies in a
    direction that leads nearer.
    """
    products = (z - x) * (other - x)
    worst = products.argmax()
    require(
        products.sum() <= ROUNDING * np.square(z).sum(),
        f"project(d) is not the nearest feasible point; the worst is entry {worst}, which goes "
        f"from {z[worst]:.6g} to "
        f"{x[worst]:.6g}.",
    )


def _check_gradient(r, m, rng):
    for scale in (0.1, 1.0, 10.0):
        d = _random_inside(r, m, rng, scale)
        gradient = vector("gradient(d)", r.gradient(d), m)
        exact, numeric = np.zeros(m), np.zeros(m)
        for k in np.flatnonzero(d):
            step = STEP * d[k] * np.eye(m)[k]
            # where all feasible weights have something in common (a sum, being equal), only
            # feasible moves count
            ahead, behind = r.project(d + step), r.project(d - step)
            exact[k] = gradient @ (ahead - behind) / (2.0 * step[k])
            numeric[k] = (r.value(ahead) - r.value(behind)) / (2.0 * step[k])
        noise = NOISE * abs(r.value(d)) / (STEP * d[d > 0.0].min(initial=np.inf))
        agree("gradient(d)", exact, numeric, NUMERIC, "finite differences of value", noise)


def _check_hessian(r, m, rng):
    d = 0.5 + rng.random(m)
    steps = STEP * np.diag(d)
    numeric = [(r.gradient(d + step) - r.gradient(d - step)) / (2.0 * step.max()) for step in steps]
    noise = NOISE * np.abs(r.gradient(d)).max() / steps.max(axis=0).min()
    agree(
        "hessian(d)",
        r.hessian(d).matrix,
        np.stack(numeric),
        NUMERIC,
        "finite differences of gradient",
        noise,
    )


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
                require(
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
        require(
            np.isfinite(phi),
            f"conjugate(s) is {phi} at s = {s}, where dual_scale promises a finite value.",
        )
        for scale in (0.1, 1.0, 10.0):
            for _ in range(DIRECTIONS):
                _fenchel_young(r, s, phi, _random_feasible(r, m, rng, scale))
        if r.has_weights:
            d = r.weights(s)
            _feasible("weights(s)", r, d, m)
            _fenchel_young(r, s, phi, d, equality=True)


def _check_curvature(r, m, rng):
    for unit in _units(r, m, rng):
        s = unit * (0.5 + rng.random(m))
        J = r.curvature(s)
        matrix = np.diag(vector("curvature(s).diagonal", J.diagonal, m)) + J.factor * np.outer(
            J.vector, J.vector
        )
        steps = STEP * np.diag(s)
        numeric = np.stack(
            [(r.weights(s + step) - r.weights(s - step)) / (2.0 * step.max()) for step in steps],
            axis=1,
        )
        noise = NOISE * r.weights(s).max() / steps.max(axis=0).min()
        agree("curvature(s)", matrix, numeric, NUMERIC, "finite differences of weights", noise)


def _fenchel_young(r, s, phi, d, equality=False):
    """``d's/2 - r(d) <= phi(s)``, with equality at the weights."""
    linear, penalty = 0.5 * float(d @ s), r.value(d)
    excess, slack = linear - penalty - phi, ROUNDING * (abs(linear) + abs(penalty) + abs(phi))
    worst = (d * s).argmax()
    where = (
        f"the largest product is that of entry {worst}, d = {d[worst]:.6g} and s = {s[worst]:.6g}"
    )
    require(
        excess <= slack,
        f"conjugate(s) is too small by {excess:.1e}: it is {phi:.6g}, but d's/2 - value(d) reaches "
        f"{linear - penalty:.6g} at a "
        f"feasible d; {where}.",
    )
    require(
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
    d = vector(what, d, m)
    worst = d.argmin()
    require(
        d[worst] >= 0.0, f"{what} has negative weights; the worst is entry {worst}, {d[worst]:.6g}."
    )
    value, worst = r.value(d), d.argmax()
    require(
        np.isfinite(value),
        f"{what} is not feasible: value is {value}; its largest entry is {worst}, {d[worst]:.6g}.",
    )
