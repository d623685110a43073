"""Factorizations of large matrices, during which Ctrl-C and callbacks are heard.

One call of LAPACK for 12,000 points takes half a minute on two cores, and nothing interrupts it.
(The same in blocks of our own took 1.7 times as long.)
"""

import threading
from typing import Any

import numpy as np
from scipy.linalg import cho_factor

from ._pulse import PULSE_INTERVAL, pulse

LARGEST_CALL = 4096  # rows of a matrix whose factorization, about a second, is waited for


def cholesky_factor(H: np.ndarray) -> tuple[Any, bool]:
    """The Cholesky factorization of a positive definite matrix, as `scipy.linalg.cho_solve` takes
    it: the lower triangle has the factor, the upper one anything.

    That of a large matrix is computed in a thread of its own, which is left to itself when this
    one is interrupted.

    Parameters
    ----------
    H : (n, n) float64 array
        Overwritten; in Fortran's order it is not copied.
    """
    if len(H) <= LARGEST_CALL:
        return cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    outcome: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(cho_factor(H, lower=True, overwrite_a=True, check_finite=False))
        except BaseException as error:  # for who waits
            outcome.append(error)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    while not done.wait(PULSE_INTERVAL):
        pulse()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
