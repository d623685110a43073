"""How much each kernel and each group of kernels has to do with a model."""

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._shares import mean_shares, shares
from ..kernels.precomputed import GramElsewhere


class TellsWeights:
    """Tables of what the kernels weigh, for fitted estimators."""

    _contributions = None  # once they were asked for

    def __dir__(self):
        # scikit-learn's looks at every attribute, and some take a pass over the kernels
        return object.__dir__(self)

    @property
    def kernel_contributions_(self):
        """Share of each kernel in the squared norm of the decision function, (m,), computed when it
        is first asked for.

        That is ``w_k sum_c beta_c' K_k beta_c`` over its sum; a heavy kernel on which the function
        hardly depends has a small one. Not there for combinations that are not sums.
        """
        check_is_fitted(self)
        if self._contributions is None:
            self._contributions = contributions(self)
        if self._contributions is None:
            raise AttributeError(
                "This model is no sum of kernels, or its Gram matrices are not at hand: no "
                "contributions."
            )
        return self._contributions

    @property
    def group_weights_(self):
        """Share of each group of kernels in the total weight, as a dict; a kernel without a group
        is one by itself.

        Where every class has its own weights, the mean of the shares.
        """
        check_is_fitted(self)
        return by_group(self.bank_.names, self.bank_.groups, mean_shares(self.kernel_weights_))

    @property
    def group_contributions_(self):
        """The `kernel_contributions_` summed over each group of kernels, as a dict; see
        `group_weights_`.
        """
        return by_group(self.kernel_names_, self.bank_.groups, self.kernel_contributions_)

    def weights_frame(self, backend="pandas"):
        """The kernels as a table, heaviest first: kernel, group, weight, share of the total weight,
        and contribution.

        The contribution is that of `kernel_contributions_`; it costs a pass over the kernels, and
        is left out where the combination is not a sum. Where every class has its own weights,
        weight and share are means, and there is a column for each class.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Whose DataFrame to make.
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.kernel_weights_).mean(axis=0)
        columns = {"kernel": self.bank_.names, "group": self.bank_.groups, "weight": weights}
        columns["share"] = mean_shares(self.kernel_weights_)
        if hasattr(self, "kernel_contributions_"):
            columns["contribution"] = self.kernel_contributions_
        if self.kernel_weights_.ndim == 2:
            columns |= {
                f"weight {name}": row
                for name, row in zip(self._output_names(), self.kernel_weights_, strict=True)
            }
        return data_frame(columns, backend)


def contributions(model):
    """Share of each kernel in the squared norm of the decision function, ``w_k sum_c beta_c' K_k
    beta_c`` over its sum, (m,).

    None for combinations of kernels that are not sums, and for precomputed kernels whose matrices
    are not in a model's file.
    """
    weights = np.atleast_2d(model.kernel_weights_)
    if model._coefficients is not None:
        parts = _of_factors(model, weights)
    elif any(
        isinstance(kernel, GramElsewhere)
        for kernel in getattr(getattr(model.bank_, "spec", None), "kernels", ())
    ):
        return None
    elif model.bank_.linear:
        parts = _of_forms(model.bank_, weights, model.result_.beta)
    else:
        return None
    return shares(np.maximum(parts, 0.0))


def _of_forms(bank, weights, beta):
    """``w_k beta' K_k beta`` summed over the outputs, (m,), from the kernels that have weight if
    the bank can be cut down.
    """
    used = np.flatnonzero(weights.any(axis=0))
    if used.size == bank.m or not hasattr(bank, "select"):
        return _weighted_forms(bank, weights, beta)
    parts = np.zeros(bank.m)
    if used.size:
        parts[used] = _weighted_forms(bank.select(used), weights[:, used], beta)
    return parts


def _weighted_forms(bank, weights, beta):
    if len(weights) == 1:
        return weights[0] * bank.quadratic_forms(beta)
    return sum(w * bank.quadratic_forms(b) for w, b in zip(weights, beta, strict=True))


def _of_factors(model, weights):
    """The same from the squared norms of the coefficients ``v_k = w_k V_k' beta`` of low-rank
    factors: ``|v_k|^2 / w_k``.
    """
    weights = np.broadcast_to(weights, model._norms.shape)
    return np.divide(model._norms, weights, out=np.zeros_like(model._norms), where=weights > 0).sum(
        axis=0
    )


def by_group(names, groups, amounts):
    """Sums over the kernels of each group, in the order in which the groups come; a kernel without
    one is its own group.
    """
    sums = {}
    for k, (group, amount) in enumerate(zip(groups, amounts, strict=True)):
        group = group or names[k]
        sums[group] = sums.get(group, 0.0) + float(amount)
    return sums


def data_frame(columns, backend):
    """A mapping of columns as a pandas or polars DataFrame, heaviest kernel first."""
    if backend not in ("pandas", "polars"):
        raise ValueError(f"backend={backend!r} is not known; use 'pandas' or 'polars'.")
    try:
        frame = nw.from_dict(
            {name: list(values) for name, values in columns.items()}, backend=backend
        )
    except ImportError as error:
        raise ImportError(
            f"weights_frame(backend={backend!r}) needs {backend}: install it (pandas comes with "
            "manykernels[frames]), or name the other backend."
        ) from error
    return frame[np.argsort(-columns["weight"], kind="stable")].to_native()
