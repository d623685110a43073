"""The data sets that come with the package."""

import sys

import numpy as np
import pandas as pd
import pytest

from manykernels import MKLClassifier, datasets
from manykernels.kernels import on_groups

# rows, columns, how many of each class
SETS = {
    "multiple_features": (400, 649, [40] * 10),
    "sonar": (208, 60, [97, 111]),
    "house_votes": (435, 16, [267, 168]),
    "heart": (270, 13, [150, 120]),
}


@pytest.fixture(params=SETS)
def name(request):
    return request.param


def load(name, **options):
    return getattr(datasets, f"load_{name}")(**options)


def test_every_loader_is_listed():
    assert sorted(datasets.__all__) == sorted(f"load_{name}" for name in SETS)


def test_shapes_and_counts(name):
    rows, columns, counts = SETS[name]
    bunch = load(name)
    assert bunch.data.shape == (rows, columns)
    assert len(bunch.feature_names) == columns
    assert np.bincount(bunch.target).tolist() == counts
    assert len(bunch.target_names) == len(counts)
    assert bunch.frame is None


def test_groups_are_all_columns_once(name):
    bunch = load(name)
    columns = [column for group in bunch.groups.values() for column in group]
    assert sorted(columns) == list(range(SETS[name][1]))


def test_frames_hold_the_same(name):
    frame, plain = load(name, as_frame=True), load(name)
    assert list(frame.data.columns) == plain.feature_names
    assert frame.target.tolist() == plain.target.tolist()
    assert list(frame.frame.columns) == [*plain.feature_names, "target"]
    assert not frame.data.isna().any(axis=None)
    for group, columns in frame.groups.items():
        assert columns == [plain.feature_names[c] for c in plain.groups[group]]
    numbers = frame.data.select_dtypes("number")
    for column in numbers:
        place = plain.feature_names.index(column)
        assert numbers[column].tolist() == plain.data[:, place].tolist()


def test_return_X_y(name):
    X, y = load(name, return_X_y=True)
    assert np.array_equal(X, load(name).data)
    assert np.array_equal(y, load(name).target)
    X, y = load(name, return_X_y=True, as_frame=True)
    assert isinstance(X, pd.DataFrame)
    assert isinstance(y, pd.Series)


def test_source_and_license_are_said(name):
    words = load(name).DESCR
    assert "https://doi.org/10.24432/" in words
    assert "CC BY 4.0" in words


def test_words_of_codes():
    """Counts that the originals have: 183 men, 152 normal scans, 177 votes for the freeze."""
    frame = datasets.load_heart(as_frame=True).data
    assert (frame["sex"] == "male").sum() == 183
    assert (frame["thallium scan"] == "normal").sum() == 152
    votes = datasets.load_house_votes().data
    assert (votes[:, 3] == "yea").sum() == 177


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert datasets.load_heart().data.shape == (270, 13)
    with pytest.raises(ImportError, match=r"manykernels\[frames\]"):
        datasets.load_heart(as_frame=True)


@pytest.mark.parametrize("name", ["heart", "house_votes"], indirect=True)
def test_groups_are_for_on_groups(name):
    bunch = load(name, as_frame=True)
    model = MKLClassifier(on_groups(bunch.groups), tol=0.05).fit(bunch.data, bunch.target)
    assert set(model.group_weights_) == set(bunch.groups)
    assert model.score(bunch.data, bunch.target) > 0.8
