"""scikit-learn's own suite on every estimator of the library."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLClassifier, MKLFeatureSelector, MKLOneClass, MKLRegressor
from manykernels.kernels import RBF, Linear
from manykernels.regularizers import L1

ESTIMATORS = [
    MKLClassifier(),
    MKLClassifier(kernels=[RBF(), Linear()], p=2.0, normalize="center"),
    MKLClassifier(
        [RBF(), Linear()], p=1.33, loss="squared_hinge", share_weights=False, multiclass="ovo"
    ),
    MKLClassifier([RBF(), Linear()], loss="logistic"),
    MKLClassifier(combination="product", regularizer=L1(), random_state=0),
    MKLRegressor([RBF(), Linear()]),
    MKLRegressor([RBF(), Linear()], loss="squared", p=2.0),
    MKLOneClass([RBF(), RBF(0.1)]),
    MKLFeatureSelector(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)
