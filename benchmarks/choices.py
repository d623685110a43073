"""What the defaults were chosen by: each of them beside its alternatives, on tables and on groups.

Parts of the benchmark `defaults`. ``tables`` and ``groups``: the default model and others that
differ from it in one or two parameters, five folds; mean accuracy, mean area under the curve (AUC),
its mean rank among all, wins and losses of AUC against the default, and the largest share of weight
on kernels that are nearly the identity or constant. For simulated groups also how the weights order
the groups: rank correlation with their true relevance, and how often an irrelevant group is first.
``sources``: models of all groups beside SVC and logistic regression on all columns, tuned ones on
inner folds. ``relevance``: which method puts the groups into their true order.

What was learned
----------------
* On wide groups a Gaussian of an eighth of the median distance is an identity matrix, and p = 1
  gives it half of all weight: it regularizes, which C would do as well. Widths that follow the
  tenth percentile of the distances (``gamma="near"``) never are. A second one of half that width is
  worth 0.002 of AUC on real views, and takes weight for no use on simulated ones: without it the
  rank correlation of the weights with the truth is 0.73 in place of 0.57, and AUC 0.004 larger.
* Standardized columns are worth 4.7 points of AUC on tables, 0.6 on real views and 1.4 on
  simulated groups; some designs with equal units lose a little.
* Unit variance, unit diagonal and cosine are within the noise of each other on groups once no
  kernel is an identity: unit variance wins on real views (8 to 1, by 0.003) and loses on
  simulated ones (12 to 21, by 0.002) and on tables (10 to 15, by 0.013). Unit diagonal stays, and
  C means what it means in SVC.
* p: by rank a p slightly above one is ahead (p = 1.1 wins 18 of 26 tables and 10 of 14 real
  views, each by 0.002 of AUC, and orders simulated groups better); p = 2 wins on tables of 300
  rows (0.007), not on 2,400, and loses more than a point where few groups matter. p = 1 stays the
  default: it alone has weights that are exactly zero, which paths over groups, stability and
  cheap predictions live on, and `MKLClassifierCV` and ``p="auto"`` choose.
* Weights at C = 1 do not order groups well where columns are many and rows few: the training rows
  are separated, and weights follow the noise (with C = 0.3 the rank correlation on the first eight
  designs is 0.87, with C = 1 it is 0.5). `explain` asks held-out rows.
* Tuned models that also try each kernel on all columns alone, as SVC is tuned, win 0.8 points of
  accuracy on 25 tables of 400 rows.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata, spearmanr
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier, MKLClassifierCV, explain
from manykernels.kernels import RBF, Linear, on_groups

from . import peers
from .common import once, table
from .views import Views, real, simulated

FOLDS, TIE = 5, 1e-9
FREQUENCIES, SPLITS = 100, 5  # of scMKL
COSTS = {"svc__C": np.logspace(-1, 2.5, 8), "svc__gamma": [0.001, 0.01, 0.1, "scale"]}
PENALTIES = {"logisticregression__C": np.logspace(-4, 2, 10)}
SAME = {
    "default": {},
    **{f"p = {p}": {"p": p} for p in (1.1, 1.33, 2.0)},
    "unit variance": {"normalize": "variance"},
    "unit variance, p = 2": {"normalize": "variance", "p": 2.0},
    "cosine": {"normalize": "cosine"},
    "columns as they are": {"scale": None},
}
ON_TABLES = SAME | {"all columns only": {"kernels": "whole"}}
WIDTHS = {
    "widths 1/8 … 8 of the median": (0.125, 0.5, 2.0, 8.0),
    "widths 1/8 … 2 of the median": (0.125, 0.5, 2.0),
}


def tables(data):
    """The evidence on plain tables, given as names, points and labels."""
    views = [Views(name, X, y, {}) for name, X, y in data if np.bincount(y > 0).min() >= FOLDS]
    jobs = [(one, title, MKLClassifier(**how)) for one in views for title, how in ON_TABLES.items()]
    return {"tables": _evidence("Tables", jobs)}


def groups(rows, designs, seeds):
    """The evidence on groups of columns: real ones of so many rows, and so many tables of each
    design.
    """
    found = {}
    for title, views in (
        ("real views", _real(rows)),
        ("simulated groups", _simulated(designs, seeds)),
    ):
        jobs = [(one, name, model) for one in views for name, model in _on_groups(one).items()]
        found[title] = _evidence(title.capitalize(), jobs)
    return found


def sources(rows, designs):
    """Models of all groups beside those of one kernel on all columns."""
    svc = make_pipeline(StandardScaler(), SVC())
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    rivals = {
        "SVC": svc,
        "logistic": logistic,
        "SVC tuned": GridSearchCV(svc, COSTS),
        "logistic tuned": GridSearchCV(logistic, PENALTIES),
    }
    jobs = []
    for one in _real(rows) + _simulated(designs, 1):
        kernels = on_groups(one.groups)
        ours = {"MKL": MKLClassifier(kernels), "MKL tuned": MKLClassifierCV(kernels)}
        jobs += [(one, title, model) for title, model in (ours | rivals).items()]
    found = _scores(jobs)
    pairs = [
        *(("MKL", "SVC"), ("MKL", "logistic")),
        *(("MKL tuned", "SVC tuned"), ("MKL tuned", "logistic tuned")),
    ]
    summary = [_pair(found, *pair, score) for pair in pairs for score in ("accuracy", "AUC")]
    table("Groups of columns: models of all groups beside models of all columns", summary)
    lost = [
        {"set": name, "model": ours, "ours": mine[score], "theirs": other[score], "of": score}
        for ours, theirs in pairs
        for score in ("AUC",)
        for name, mine, other in _paired(found, ours, theirs)
        if mine[score] < other[score] - TIE
    ]
    table("Where ours has a lower AUC", lost)
    return {"sets": found, "summary": summary, "lost": lost}


def relevance(designs, seeds):
    """Which method puts simulated groups into the order of their true relevance."""
    views = _simulated(designs, seeds)
    orders = Parallel(n_jobs=-1)(delayed(once)(one.name, _orders, one) for one in views)
    for one, found in zip(views, orders, strict=True):
        found["scMKL, selection frequency"] = once(f"{one.name}, scMKL", _scmkl, one)
    rows = []
    for name in designs:
        mine = [k for k, one in enumerate(views) if one.name.startswith(f"{name} #")]
        row = {"design": name}
        for method in orders[mine[0]]:
            told = [_told(orders[k][method], views[k].relevance) for k in mine]
            row[method] = float(np.mean([one[0] for one in told]))
        rows.append(row)
    table("Rank correlation with the true relevance", rows)
    summary = []
    for method in orders[0]:
        told = [_told(o[method], v.relevance) for o, v in zip(orders, views, strict=True)]
        some = [one[1] for one, v in zip(told, views, strict=True) if not v.relevance.all()]
        summary.append(
            {
                "method": method,
                "rank correlation": float(np.mean([one[0] for one in told])),
                "an irrelevant group first": float(np.mean(some)),
            }
        )
    table("Order of the groups", summary)
    return {"designs": rows, "summary": summary}


def _told(scores, truth):
    """Rank correlation with the truth, and whether an irrelevant group is first."""
    constant = np.ptp(scores) == 0.0 or np.ptp(truth) == 0.0
    correlation = 0.0 if constant else float(spearmanr(scores, truth)[0])
    return correlation, float(truth[int(np.argmax(scores))] == 0.0)


def _orders(one):
    """Scores of all groups by several methods."""
    names = list(one.groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MKLClassifier(on_groups(one.groups), n_jobs=1).fit(one.X, one.y)
        told = explain(model, one.X, one.y, random_state=0)
        lasso = MKLClassifierCV(
            on_groups(one.groups, Linear()), scale="standard", loss="logistic", ps=[1.0], n_jobs=1
        ).fit(one.X, one.y)
    place = {group: -position for position, group in enumerate(told.groups)}
    return {
        "explain": [float(place[group]) for group in names],
        "weights": [model.group_weights_[group] for group in names],
        "group lasso, tuned": [lasso.group_weights_[group] for group in names],
        "forest, permuted groups": _forest(one),
    }


def _forest(one):
    """Drop in accuracy of a forest on held-out rows whose columns of a group are permuted."""
    drops, rng = np.zeros(len(one.groups)), np.random.default_rng(0)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(one.X, one.y):
        forest = RandomForestClassifier(500, random_state=0, n_jobs=1)
        forest.fit(one.X[train], one.y[train])
        whole = roc_auc_score(one.y[test], forest.predict_proba(one.X[test])[:, 1])
        for g, columns in enumerate(one.groups.values()):
            for _ in range(5):
                mixed = one.X[test].copy()
                mixed[:, columns] = mixed[rng.permutation(len(test))][:, columns]
                drops[g] += whole - roc_auc_score(one.y[test], forest.predict_proba(mixed)[:, 1])
    return (drops / (5 * FOLDS)).tolist()


def _scmkl(one):
    """How often scMKL selects each group."""
    lengths = [len(columns) for columns in one.groups.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        X = StandardScaler().fit_transform(one.X)
        offsets, members = np.cumsum([0, *lengths]), np.concatenate(list(one.groups.values()))
        np.savez(path, X=X, y=one.y, members=members, offsets=offsets)
        return peers.run("scmkl", "scmkl_frequency", path, SPLITS, FREQUENCIES)


def _real(sizes):
    return [one._replace(name=f"{one.name}, {rows} rows") for rows in sizes for one in real(rows)]


def _simulated(designs, seeds):
    """Tables of some designs, by their name and number."""
    return [
        simulated(name, seed)._replace(name=f"{name} #{seed}")
        for name in designs
        for seed in range(seeds)
    ]


def _on_groups(one):
    """The default model of a table with groups, and others."""
    models = {name: MKLClassifier(on_groups(one.groups), **how) for name, how in SAME.items()}
    for name, factors in WIDTHS.items():
        own = [*(RBF("median", factor=factor) for factor in factors), Linear()]
        models[name] = MKLClassifier(on_groups(one.groups, own), scale="standard")
    return models


def _evidence(title, jobs):
    """The table of candidates, from a row for every set and candidate."""
    rows = _scores(jobs)
    of = {(r["set"], r["model"]): r for r in rows}
    names, sets = ([*dict.fromkeys(r[key] for r in rows)] for key in ("model", "set"))
    curves = np.array([[of[one, name]["AUC"] for name in names] for one in sets])
    ranks = np.array([rankdata(-np.round(line, 9)) for line in curves])
    lines = []
    for place, name in enumerate(names):
        mine, gain = [of[one, name] for one in sets], curves[:, place] - curves[:, 0]
        line = {
            "candidate": name,
            "accuracy": float(np.mean([r["accuracy"] for r in mine])),
            "AUC": float(curves[:, place].mean()),
            "mean rank": float(ranks[:, place].mean()),
            "wins": int((gain > TIE).sum()),
            "losses": int((gain < -TIE).sum()),
            "most silent weight": float(max(r["silent"] for r in mine)),
        }
        if "correlation" in mine[0]:
            line["rank correlation"] = float(np.mean([r["correlation"] for r in mine]))
            line["irrelevant first"] = float(np.mean([r["irrelevant"] for r in mine]))
        lines.append(line)
    table(f"{title}: {len(sets)} sets", lines)
    return {"sets": rows, "summary": lines}


def _scores(jobs):
    """Every model on all folds of its table; tables are spread over the cores."""
    return Parallel(n_jobs=-1, batch_size=1)(
        delayed(once)(f"{one.name}, {title}", _score, one, title, model)
        for one, title, model in jobs
    )


def _score(one, title, model):
    """Means over the folds."""
    if "n_jobs" in model.get_params(deep=False) and isinstance(model, MKLClassifier):
        model.set_params(n_jobs=1)
    found = []
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1)
    for train, test in folds.split(one.X, one.y):
        fitted = clone(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted.fit(one.X[train], one.y[train])
        row = {
            "accuracy": accuracy_score(one.y[test], fitted.predict(one.X[test])),
            "AUC": roc_auc_score(one.y[test], fitted.decision_function(one.X[test])),
            "silent": _silent(fitted),
        }
        if one.relevance is not None and isinstance(fitted, MKLClassifier):
            weights = [fitted.group_weights_[group] for group in one.groups]
            row["correlation"], row["irrelevant"] = _told(weights, one.relevance)
        found.append(row)
    means = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
    means["silent"] = max(row["silent"] for row in found)
    return {"set": one.name, "model": title, **means}


def _silent(model):
    """Share of the weight on kernels that say nothing about other points."""
    silent = getattr(model, "silent_kernels_", None)
    if not silent or not model.kernel_weights_.any():
        return 0.0
    weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    return float(weights[np.concatenate(list(silent.values())).astype(int)].sum() / weights.sum())


def _paired(rows, ours, theirs):
    of = {(row["set"], row["model"]): row for row in rows}
    for name in dict.fromkeys(row["set"] for row in rows):
        yield name, of[name, ours], of[name, theirs]


def _pair(rows, ours, theirs, score):
    """Wins, ties and losses of one model against another."""
    pairs = [(mine[score], other[score]) for _, mine, other in _paired(rows, ours, theirs)]
    mine, other = np.array(pairs).T
    return {
        "model": ours,
        "against": theirs,
        "of": score,
        "mean": float(mine.mean()),
        "theirs": float(other.mean()),
        "wins": int((mine > other + TIE).sum()),
        "ties": int((np.abs(mine - other) <= TIE).sum()),
        "losses": int((mine < other - TIE).sum()),
    }
