"""Everything that people combine, on every way that a fit may go; see `crossing`."""

import pytest

import crossing
from manykernels import _pulse, planning

ROWS, IMPOSSIBLE = crossing.rows()


def _is_dear(row, name):
    """Whether a run takes a second or more: dozens of fits, each of which goes the way of another
    row, or hundreds of iterations of a method of first order.
    """
    if row["norm"] == "squared 1" and row["task"] == "logistic" and row["tolerance"] == "fine":
        return True
    features = row["kernels"] == "product" and row["approximation"] != "exact"
    if row["norm"] == "auto":
        return features or name != "matrices in memory"
    if features or row["limit"] == "groups":
        return name in ("rows on demand", "sample of points", "small tiles")
    if row["task"] in crossing.TUNED:
        return name in ("rows on demand", "small tiles", "finer kernels")
    slow = row["norm"] in ("log-det", "l1", "squared 1") and row["tolerance"] == "fine"
    return slow and name in ("rows on demand", "conjugate gradients", "small tiles")


def _runs():
    for number, row in enumerate(ROWS):
        for place, (name, way) in enumerate(crossing.WAYS.items()):
            usual = way.takes(row) and not _is_dear(row, name)
            # all rows go the plain way, and every twelfth one each of the others
            usual = usual and (place == 0 or (number + place) % 12 == 0)
            if way.needs:  # a device takes half a second, a cluster several
                usual = usual and number % {"torch": 5, "distributed": 40}[way.needs] == 0
            marks = [] if usual else [pytest.mark.long]
            marks += [pytest.mark.device] if way.needs == "torch" else []
            ident = f"{number}-{name}".replace(" ", "_")
            yield pytest.param(row, name, (number + place) % 16 == 0, id=ident, marks=marks)


@pytest.fixture(scope="module")
def cluster():
    """Two workers on this machine."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with (
        distributed.LocalCluster(n_workers=2, host="127.0.0.1", **options) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.mark.parametrize(("row", "name", "interrupted"), list(_runs()))
def test_holds(row, name, interrupted, tmp_path, monkeypatch, request):
    """A fit ends, is finite, keeps its claim, comes back from a file, and obeys Ctrl-C."""
    way, case = crossing.WAYS[name], crossing.case(row)
    parameters = dict(way.parameters) if way.takes(row) else {}
    package = pytest.importorskip(way.needs) if way.needs else None
    if way.needs == "torch" and package.cuda.is_available():
        parameters["device"] = "cuda"
    if way.needs == "distributed" and row["task"] != "one class":
        request.getfixturevalue("cluster")
        case.estimator = crossing.on_cluster(case.estimator)
    refusal = next((one for one in way.refused if one.holds(row)), None)
    if refusal is not None:
        with pytest.raises(ValueError, match=refusal.sentence):
            crossing.fitted(case, **parameters)
        return
    with crossing.going(way):
        model = crossing.fitted(case, **parameters)
        if interrupted:
            monkeypatch.setattr(_pulse, "PULSE_INTERVAL", 0.0)
            crossing.check_interrupt(case, 3, **parameters)
    if way.needs == "distributed" and row["task"] != "one class":
        model = model.ordinary()
    crossing.check_model(case, model, crossing.AXES["tolerance"][row["tolerance"]])
    crossing.check_file(case, model, tmp_path)


@pytest.mark.parametrize("name", [name for name, way in crossing.WAYS.items() if not way.needs])
def test_every_way_is_walked(name):
    """The thresholds of a way still lead there: one of its rows goes that way."""
    way = crossing.WAYS[name]
    rows = [row | way.surely for row in ROWS if way.takes(row) and not _is_dear(row, name)]
    for row in rows:
        if crossing.refusal(row) is not None:
            continue
        with crossing.going(way) as walked:
            model = crossing.fitted(crossing.case(row), **way.parameters)
        if walked or name in crossing.planned_ways(model):
            return
    pytest.fail(f"none of {len(rows)} rows goes the way {name!r}")


def test_every_way_of_a_plan_is_crossed():
    assert {way.planned for way in crossing.WAYS.values()} >= set(planning.Way)


@pytest.mark.parametrize(
    ("refusal", "row"),
    [
        pytest.param(*pair, id=f"refusal{number}")
        for number, pair in enumerate(crossing.refused_rows())
    ],
)
def test_is_refused_with_a_sentence(refusal, row):
    with crossing.by_pairs(), pytest.raises(ValueError, match=refusal.sentence):
        crossing.fitted(crossing.case(row))


def test_pairs_are_covered():
    """Every two values of different axes meet, unless nothing takes them together."""
    met = set().union(*map(crossing.pairs, ROWS))
    assert not met & IMPOSSIBLE
    assert len(met) + len(IMPOSSIBLE) == crossing.count_pairs()
