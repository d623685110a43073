"""Models on precomputed kernels, which predict from the matrices K(rows, train): fewer columns of
them, with other coefficients.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..kernels.precomputed import GramElsewhere
from .fitting import coefficients, greedy, values
from .judgment import Likeness, Shares, Target, is_reached, judged, tell, with_decision
from .search import NotReached, sizes


def compress_grams(
    model: Any,
    grams: list[np.ndarray],
    wanted: Target,
    points: str,
    likeness: Likeness,
    random: np.random.Generator,
) -> Any:
    """A model that needs fewer columns of K(rows, train); see `compress`.

    Parameters
    ----------
    model : fitted estimator
    grams : list of (n, n_train) arrays
    wanted : Target
    points : str
    likeness : Likeness
    random : Generator
    """
    if points not in ("auto", "support"):
        raise ValueError(
            f"points={points!r} needs rows of features: the points of precomputed kernels are "
            "training rows, so that points='support' is all there is."
        )
    if wanted.agreement is None and wanted.n_points is None:
        raise ValueError(
            "Models on precomputed kernels hold coefficients only: give agreement or n_points."
        )
    decision = model.decision_
    if wanted.n_points is not None and wanted.n_points >= decision.rows.size:
        raise ValueError(
            f"Nothing can be gained: the model has {decision.rows.size} points, and "
            f"{wanted.n_points} were allowed."
        )
    scores = decision.scores(grams)
    shares = Shares.of(np.zeros(scores.shape[1], dtype=bool), wanted.agreement is not None, random)
    agrees = likeness.judge(scores[:, shares.fit])
    weights = np.atleast_2d(decision.weights) * decision.bank.scales
    K = np.stack(
        [sum(w * G[:, decision.rows] for w, G in zip(row, grams, strict=True)) for row in weights]
    )
    order = greedy(K[:, shares.fit], scores[:, shares.fit], wanted.n_points or decision.rows.size)

    def fitted(count: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return coefficients(K[:, at][:, :, order[:count]], scores[:, at])

    def agreeing(count: int) -> np.ndarray:
        found = values(K[:, shares.choice][:, :, order[:count]], *fitted(count, shares.fit))
        return agrees(found, scores[:, shares.choice])

    count = len(order)
    if wanted.agreement is not None:
        enough = (size for size in sizes(count) if is_reached(agreeing(size), wanted.agreement))
        size = next(enough, decision.rows.size)
        if size >= decision.rows.size:
            raise NotReached.at(count, float(agreeing(count).mean()), wanted.agreement)
        count = size
    beta, intercept = fitted(count, np.concatenate([shares.fit, shares.choice]))
    small = _with_columns(model, decision.rows[order[:count]], beta, intercept)
    before, after = (
        scores[:, shares.test],
        values(K[:, shares.test][:, :, order[:count]], beta, intercept),
    )
    small.compression_ = judged(model, small, before, after, agrees, 0, "support")._replace(
        fitted=int(shares.fit.size + shares.choice.size), points_before=int(decision.rows.size)
    )
    tell(small.compression_, wanted)
    return small


def _with_columns(model, rows, beta, intercept):
    """The model with coefficients at some of the rows that were given to `fit`; ascending."""
    order = np.argsort(rows)
    rows, beta = rows[order], beta[:, order]
    bank = model.decision_.bank
    # the matrices of the training rows are not needed for predictions from K(rows, train)
    kernels = [GramElsewhere(kernel.features, kernel.title) for kernel in bank.kernels]
    some = bank.take_points(np.arange(rows.size))
    some.spec = replace(some.spec, kernels=kernels)
    decision = replace(
        model.decision_,
        bank=some,
        intercept=intercept,
        support=np.arange(rows.size),
        beta=beta,
        whole=False,
        rows=rows,
        dual_coef=beta,
    )
    small = with_decision(model, decision, np.arange(bank.m))
    small.support_ = rows
    return small
