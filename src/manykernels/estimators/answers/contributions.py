"""How much each kernel and each group of kernels has to do with a model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._shares import heard_shares, mean_shares, shares
from ..._words import percent
from ...kernels import Linear
from ..data.frames import data_frame
from ..data.silent import remarks, silent_mask, silent_words

AT_ONCE = 256  # columns along which slopes are taken together
REGULARIZATION = "(regularization)"  # what tables call kernels that say nothing about other points


class GroupShares(dict):
    """Shares of groups of kernels, by name: a dict that also knows what is no group's.

    The shares are of what kernels have that say something about other points, so that they sum to
    one if there are any.

    Attributes
    ----------
    regularization : float
        Share, in everything, of the kernels that are nearly the identity on the training rows or
        constant there (`silent_kernels_`). It is no item, so that no name of a group is like it.
    """

    def __init__(self, shares=(), regularization=0.0):
        super().__init__(shares)
        self.regularization = regularization

    def __repr__(self):
        words = super().__repr__()
        if not self.regularization:
            return words
        return f"{words} beside regularization: {percent(self.regularization)} of all"


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
        """Share of each group of kernels in the weight, a `GroupShares`: a dict from group to
        share. A kernel without a group is one by itself.

        Kernels that say nothing about other points (`silent_kernels_`) belong to no group here:
        ``group_weights_.regularization`` is their share of all the weight, and the groups share
        the rest, so that they sum to one. Where every class has its own weights, the mean of the
        shares.
        """
        check_is_fitted(self)
        return self._by_group(self.kernel_weights_)

    @property
    def group_contributions_(self):
        """Share of each group of kernels in the contributions of those that say something about
        other points, a `GroupShares`; see `group_weights_`.
        """
        return self._by_group(self.kernel_contributions_)

    def _by_group(self, amounts):
        heard, regularization = heard_shares(amounts, self._is_silent)
        groups = by_group(self.bank_.names, self.bank_.groups, heard)
        return GroupShares(groups, regularization)

    @property
    def _is_silent(self):
        """Which kernels say nothing about other points, (m,) bool; none if nobody looked."""
        return silent_mask(getattr(self, "silent_kernels_", None), len(self.bank_.names))

    def group_decisions(self, X):
        """What each group of kernels adds to the decision values of new points, as a dict from
        group to array; with the intercept their sum is `decision_function` (one against one, that
        of the pairs), or `predict` in a regression.

        Where a row of a patient or a cell went one way, this says which source of data sent it
        there. A group's part is known up to a constant only, which the intercept makes up for.

        Parameters
        ----------
        X : as for `predict`
        """
        check_is_fitted(self)
        names, members = grouped(self.bank_.names, self.bank_.groups)
        return dict(zip(names, map(self._shaped_part, self._parts(X, members)), strict=True))

    def feature_contributions(self, backend="pandas"):
        """The columns as a table, most important first: feature, contribution and loading.

        The contribution of a linear kernel, in what those contribute that say something about other
        points (`group_contributions_`), is a sum over its columns, and
        that of a kernel on a single column is the column's. What kernels that mix columns
        contribute cannot be told apart, so that the contributions sum to less than one where there
        are such; scikit-learn's ``permutation_importance`` asks for their columns at held-out rows.
        The loading is the slope of the decision function along the column, as far as linear kernels
        make it, in units of the table; there is one for every output.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Whose DataFrame to make.
        """
        check_is_fitted(self)
        if self.bank_.normalize == "cosine":
            raise AttributeError("With normalize='cosine' no kernel is linear in its columns.")
        whole, _ = heard_shares(self.kernel_contributions_, self._is_silent)
        count = self.n_features_in_
        seen = [self.bank_.columns_of(k) for k in range(len(whole))]
        linear = [
            k for k, kernel in enumerate(self.bank_.kernels) if whole[k] and type(kernel) is Linear
        ]
        amounts = np.zeros(count)
        for k, columns in enumerate(seen):
            if columns is not None and len(columns) == 1 and k not in linear:
                amounts[columns[0]] += whole[k]
        slopes = self._slopes(linear)  # (kernels, t, columns)
        for k, rows in zip(linear, slopes, strict=True):
            amounts += whole[k] * shares(np.square(rows).sum(axis=0))
        loadings = slopes.sum(axis=0) / getattr(self, "feature_spreads_", 1.0)
        order = np.argsort(-amounts, kind="stable")
        columns = {"feature": np.array(self._column_names(), dtype=object), "contribution": amounts}
        if len(loadings) == 1:
            columns["loading"] = loadings[0]
        else:
            named = zip(self._output_names(), loadings, strict=True)
            columns |= {f"loading {name}": row for name, row in named}
        return data_frame({name: values[order] for name, values in columns.items()}, backend)

    def _slopes(self, linear):
        """Slopes of what linear kernels add along every column, as they see it, (kernels, t,
        n_features).
        """
        count, outputs = self.n_features_in_, len(self.intercept_)
        members = np.zeros((len(linear), len(self.bank_.names)), dtype=bool)
        members[np.arange(len(linear)), linear] = True
        out = np.zeros((len(linear), outputs, count))
        if not linear:
            return out
        origin = self.decision_.parts(np.zeros((1, count)), members)
        for first in range(0, count, AT_ONCE):
            some = np.arange(first, min(first + AT_ONCE, count))
            units = np.zeros((some.size, count))
            units[np.arange(some.size), some] = 1.0
            out[:, :, some] = self.decision_.parts(units, members) - origin
        return out

    def _shaped_part(self, part):
        """The part of a group, (t, n), as decision values are shaped."""
        return part[0] if len(part) == 1 else part.T

    def _words_on_silence(self):
        """A sentence on kernels that have weight and tell nothing about new points; empty if none
        does, or nobody looked.
        """
        silent = getattr(self, "silent_kernels_", None)
        if silent is None:
            return ""
        return silent_words(silent, mean_shares(self.kernel_weights_), self.bank_.names)

    def weights_frame(self, backend="pandas"):
        """The kernels as a table, heaviest first: kernel, group, weight, share of the weight,
        contribution and remark.

        A kernel that says nothing about other points has a remark (it is nearly the identity on
        the training rows, or constant there), the group ``"(regularization)"``, and its share of
        everything; the others share the rest, so that sums by group are `group_weights_` and
        `group_contributions_`. A user's group of that name makes it ``"(regularization) (2)"``.
        The contribution costs a pass over the kernels, and is left out where the combination is
        not a sum. Where every class has its own weights, weight and share are means, and there is
        a column for each class.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Whose DataFrame to make.
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.kernel_weights_).mean(axis=0)
        silent, groups = self._is_silent, np.array(self.bank_.groups, dtype=object)
        groups[silent] = regularization_name(self.bank_.groups)
        columns = {"kernel": self.bank_.names, "group": groups, "weight": weights}
        columns["share"] = told_apart(self.kernel_weights_, silent)
        if hasattr(self, "kernel_contributions_"):
            columns["contribution"] = told_apart(self.kernel_contributions_, silent)
        if hasattr(self, "silent_kernels_"):
            columns["remark"] = remarks(self.silent_kernels_, len(weights))
        if self.kernel_weights_.ndim == 2:
            columns |= {
                f"weight {name}": row
                for name, row in zip(self._output_names(), self.kernel_weights_, strict=True)
            }
        order = np.argsort(-columns["weight"], kind="stable")
        ordered = {name: np.asarray(values)[order] for name, values in columns.items()}
        return data_frame(ordered, backend)


class ExplainsItself:
    """For estimators that can be trained on parts of labeled rows."""

    def explain(self, X, y, **options):
        """Which groups of kernels matter, and how sure that is, in one table.

        Parameters
        ----------
        X, y
            As for `fit`: the rows to train on.
        **options
            As for `manykernels.explain`, which says what is done.

        Returns
        -------
        Explanation
        """
        from .explanation import explain  # which needs estimators, and so comes after them

        return explain(self, X, y, **options)


def contributions(model):
    """Share of each kernel in the squared norm of the decision function, ``w_k sum_c beta_c' K_k
    beta_c`` over its sum, (m,).

    None for combinations of kernels that are not sums, and for precomputed kernels whose matrices
    are not in a model's file.
    """
    parts = model.decision_.squared_norms()
    return None if parts is None else shares(np.maximum(parts, 0.0))


def told_apart(amounts, silent):
    """Shares of the kernels that say something in what these have, and of the silent ones in
    everything, (m,).
    """
    return np.where(silent, mean_shares(amounts), heard_shares(amounts, silent)[0])


def regularization_name(groups):
    """The name under which tables list kernels that say nothing, which no group has."""
    return _free(REGULARIZATION, set(groups))


def _free(name, taken):
    """The name, with a number if it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def grouped(names, groups):
    """The groups in the order in which they come, and which kernels each has, (g, m); a kernel
    without a group is its own, and has a number where its name is taken.
    """
    order: dict[str, list[int]] = {}
    taken = set(filter(None, groups))
    for k, (name, group) in enumerate(zip(names, groups, strict=True)):
        if not group:
            group = _free(name, taken)
            taken.add(group)
        order.setdefault(group, []).append(k)
    members = np.zeros((len(order), len(names)), dtype=bool)
    for g, kernels in enumerate(order.values()):
        members[g, kernels] = True
    return list(order), members


def by_group(names, groups, amounts):
    """Sums over the kernels of each group, as a dict in the order of `grouped`."""
    order, members = grouped(names, groups)
    return dict(zip(order, (members @ np.asarray(amounts, dtype=float)).tolist(), strict=True))
