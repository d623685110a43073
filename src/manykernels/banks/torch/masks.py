"""Gaussians on feature subsets in one launch, ``exp2(-rate_k sum_f mask_kf (x_f - y_f)^2)``.

A mask is exact in the eight binary digits of bfloat16, and a squared difference is the sum of three
such numbers: so three products of matrices that a GPU is fastest at give all digits of float32.
Compiled only.
"""

from typing import Any, NamedTuple

# of a tile, and tiles that a program goes through; pairs of points that another visits at a time:
# the fastest of eight choices
KERNELS, COLUMNS, GROUP = 128, 128, 16
PAIRS = 64
MOST = 2  # forms that a program adds up


class Masks(NamedTuple):
    """Masks, eight features to a byte, the exponents per squared difference, and how many features
    there are.
    """

    packed: Any
    rates: Any
    n_features: int

    def chosen(self, kernels):
        """Some kernels, a slice of them."""
        return self._replace(packed=self.packed[kernels], rates=self.rates[kernels])


def split(torch, squares):
    """Squared differences (pairs, features) in three parts, (3, pairs, width) with zeros behind the
    features.
    """
    pairs, d = squares.shape
    out = torch.zeros((3, pairs, _width(d)), dtype=torch.bfloat16, device=squares.device)
    rest = squares
    for part in out:
        part[:, :d] = rest
        rest = rest - part[:, :d].to(rest.dtype)
    return out


def forms(torch, masks, squares, B):
    """``sum_p B[c, p] K_k,p`` for every kernel and some c, (len(B), m), for pairs in three
    parts.
    """
    from .programs import masked_forms

    m, pairs, width = len(masks.rates), squares.shape[1], squares.shape[2]
    out = torch.empty((len(B), m), dtype=torch.float32, device=B.device)
    for first in range(0, len(B), MOST):
        some = B[first : first + MOST].contiguous()
        masked_forms[(-(-m // KERNELS),)](
            masks.packed, masks.rates, squares, some, out[first:], m, masks.packed.shape[1],
            masks.n_features, pairs, pairs * width, C=len(some), BM=KERNELS, BN=PAIRS, BD=width,
            num_warps=4, num_stages=3,
        )  # fmt: skip
    return out


def multiply(torch, points, masks, coefficients, weights, combined):
    """Products of the kernels with coefficients, and their sum, without holding a table of them.

    Parameters
    ----------
    points : pair of tensors, (rows, d) and (n, d)
    masks : Masks
    coefficients : (t, n) tensor
    weights : (m,) tensor
    combined : (rows, n) float64 tensor
        To it is added ``sum_k weights[k] K_k``.

    Returns
    -------
    (m, rows, t) tensor
        ``K_k coefficients``.
    """
    from .programs import masked_products

    (left, right), (t, n), m = points, coefficients.shape, len(masks.rates)
    out = torch.zeros((m, len(left), t), dtype=torch.float32, device=coefficients.device)
    grid = (len(left), -(-m // (KERNELS * GROUP)), -(-n // COLUMNS))
    masked_products[grid](
        left, right, masks.packed, masks.rates, coefficients, weights, out, combined, m,
        masks.packed.shape[1], len(left), n, masks.n_features, T=t, GROUP=GROUP, BM=KERNELS,
        BN=COLUMNS, BD=_width(masks.n_features), num_warps=4,
    )  # fmt: skip
    return out


def _width(d):
    """Features with zeros behind them: a power of two."""
    return 1 << max(4, (d - 1).bit_length())
