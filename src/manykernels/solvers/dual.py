"""What solvers that ascend on the dual share: a point to begin from, and a point judged by its
products.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from .base import Iterate

FIRST_TOLERANCE = 0.1  # violation of the first SVM
SMALLEST = np.exp(-20.0)  # factor on it


def rough_start(run):
    """Coefficients, products and forms of an SVM solved roughly at the first weights, times the
    factor that suits the dual.
    """
    beta = first_svm(run)
    products = run.products(beta)
    forms = forms_of(products, beta)
    size = best_multiple(run.problem, beta, forms)
    return size * beta, size * products, size**2 * forms


def first_svm(run):
    """Coefficients of an SVM solved roughly at the first weights."""
    return run.evaluate(*run.start, FIRST_TOLERANCE).beta


def judged(run, model, beta, products, forms):
    """The iterate at beta, with the weights that belong to its forms."""
    weights = model.weights(forms)
    scores = (weights @ products.reshape(len(products), -1)).reshape(beta.shape)
    return Iterate(weights, beta, run.certificate(weights, beta, scores=scores, forms=forms))


def computed(run, model, beta):
    """Products, forms and iterate at beta, from a fresh pass over the kernels."""
    products = run.products(beta)
    forms = forms_of(products, beta)
    return products, forms, judged(run, model, beta, products, forms)


def forms_of(products, beta):
    """Quadratic forms ``sum_c beta_c' products[k, c]``, which rounding must not make negative."""
    return np.maximum(inner(products, beta), 0.0)


def inner(products, beta):
    """``sum_c beta_c' products[k, c]`` for every kernel: `np.tensordot`, which takes longer to
    begin than a small one takes.
    """
    return products.reshape(len(products), -1) @ beta.ravel()


def best_multiple(problem, beta, forms):
    """The factor in (0, 1] on beta with the largest dual value; one where the sum of beta is given.

    It costs nothing and saves up to ten iterations where the scale of the weights is not known
    beforehand (the squared norm).
    """
    if problem.has_fixed_sum:
        return 1.0
    if problem.regularizer.homogeneous:
        return max(problem.best_scale(beta, forms), SMALLEST)

    def loss(log_size):
        size = np.exp(log_size)
        return problem.regularizer.conjugate(size**2 * forms) - problem.dual_linear(size * beta)

    bounds = (np.log(SMALLEST), 0.0)
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.01})
    return 1.0 if loss(0.0) <= found.fun else float(np.exp(found.x))
