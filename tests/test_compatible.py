"""scikit-learn's own suite on every estimator of the library, as it is without parameters."""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import manykernels
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
)
from manykernels.kernels import RBF, Linear
from manykernels.regularizers import L1

DEFAULTS = [MKLClassifier(), MKLRegressor(), MKLOneClass(), MKLFeatureSelector()]
# grids of four hundred problems take minutes; all else about them is as it is by default
ONE_CELL = {"kernels": "whole", "Cs": [1.0], "ps": [2.0], "cv": 2}
SMALL_GRIDS = [MKLClassifierCV(**ONE_CELL), MKLRegressorCV(**ONE_CELL)]
GRIDS = [MKLClassifierCV(), MKLRegressorCV()]
VARIANTS = [
    MKLClassifier(
        [RBF(), Linear()], p=1.33, loss="squared_hinge", share_weights=False, multiclass="ovo"
    ),
    MKLClassifier(combination="product", regularizer=L1(), random_state=0),
]
MORE_VARIANTS = [
    MKLClassifier(kernels=[RBF(), Linear()], p=2.0, normalize="center"),
    MKLClassifier([RBF(), Linear()], loss="logistic"),
    MKLRegressor([RBF(), Linear()], loss="squared", p=2.0),
    MKLFeatureSelector(threshold=1e-3),
]


# of permuted columns, whose order cannot be the same for a weight of two and two equal rows
RANDOM = {
    f"check_sample_weight_equivalence_on_{kind}_data": "permutes rows"
    for kind in ("dense", "sparse")
}


def known_failures(estimator):
    return RANDOM if getattr(estimator, "threshold", None) == "auto" else {}


@parametrize_with_checks(DEFAULTS + SMALL_GRIDS + VARIANTS, expected_failed_checks=known_failures)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(MORE_VARIANTS, expected_failed_checks=known_failures)
def test_more_variants_are_compatible(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(GRIDS)
def test_whole_grids_are_compatible(estimator, check):
    check(estimator)


def test_no_estimator_is_left_out():
    public = [getattr(manykernels, name) for name in manykernels.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)}
    assert {type(estimator) for estimator in DEFAULTS + GRIDS} == kinds
