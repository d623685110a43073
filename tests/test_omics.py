"""AnnData, MuData and gene sets: one table with groups of columns, and weights on the way back."""

import gzip
import io
import shutil
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score, train_test_split

from conftest import data_folder
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    load,
    save,
)
from manykernels.kernels import RBF, Linear, on_groups
from manykernels.omics import blocks, read_gmt, store, views

ad = pytest.importorskip("anndata", reason="anndata is not installed; manykernels[omics] has it")
md = pytest.importorskip("mudata", reason="mudata is not installed; manykernels[omics] has it")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*identity:UserWarning")

N, GENES = 60, [f"G{i}" for i in range(12)]
SAMPLES = [f"s{i}" for i in range(N)]
SETS = {
    "A": ["G0", "G1", "G2", "absent"],
    "B": ["G2", "G3", "G4", "G5", "G6"],
    "tiny": ["G7", "gone"],
    "none": ["nothing"],
}


def numbers(seed=0, columns=12):
    values = np.random.default_rng(seed).normal(size=(N, columns))
    return np.where(np.abs(values) < 0.4, 0.0, values)


TABLE = numbers()
LABELS = np.where(TABLE[:, 0] + TABLE[:, 1] > 0, "high", "low")


def cells(kind=sparse.csr_matrix):
    """An AnnData of sixty samples and twelve genes."""
    made = ad.AnnData(
        kind(TABLE),
        obs=pd.DataFrame({"state": pd.Categorical(LABELS), "dose": TABLE[:, 0]}, index=SAMPLES),
        var=pd.DataFrame({"symbol": [f"sym{i}" for i in range(12)]}, index=GENES),
    )
    made.layers["doubled"] = kind(2 * TABLE)
    made.obsm["X_pca"] = numbers(1, 3)
    made.obsm["scores"] = pd.DataFrame(numbers(2, 2), index=SAMPLES, columns=["u", "v"])
    return made


def tissue(kind=sparse.csr_matrix):
    """A MuData of rna in other order than protein, which five samples lack."""
    protein = ad.AnnData(
        numbers(3, 4)[5:],
        obs=pd.DataFrame(index=SAMPLES[5:]),
        var=pd.DataFrame(index=["G2", "P1", "P2", "P3"]),
    )
    both = md.MuData({"rna": cells(kind)[::-1].copy(), "protein": protein})
    both.obs["state"] = pd.Series(LABELS, index=SAMPLES)
    return both


def by_name(v):
    """X as a frame of samples and columns, to compare with others."""
    X = v.X.toarray() if sparse.issparse(v.X) else v.X
    return pd.DataFrame(X, index=v.samples, columns=v.columns)


class TestGmt:
    @pytest.mark.parametrize(
        "text",
        [
            "A\tfirst\tG1\tG2\nB\tsecond\tG3\n",
            "A\tfirst\tG1\tG2\t\t\nB\t\tG3",
            "\ufeffA\tfirst\tG1\tG2\r\nB\tsecond\tG3\r\n",
            "\n A \tfirst\tG1\tG2\tG1\n\n\t\nB\tsecond\t\t G3\n\n",
            "A\tfirst\tG1\tG2\rB\tsecond\tG3\r",
        ],
        ids=["plain", "no description", "windows", "blanks", "old lines"],
    )
    def test_oddities(self, text, tmp_path):
        expected = {"A": ("G1", "G2"), "B": ("G3",)}
        (tmp_path / "sets.gmt").write_bytes(text.encode())
        with gzip.open(tmp_path / "sets.gmt.gz", "wb") as file:
            file.write(text.encode())
        for source in (
            tmp_path / "sets.gmt",
            str(tmp_path / "sets.gmt.gz"),
            io.BytesIO(text.encode()),
            io.StringIO(text),
        ):
            assert read_gmt(source) == expected
            if hasattr(source, "seek"):
                source.seek(0)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"A\tx\tG1\n\nA B C\n", "line 3: .*there is no tab; got 'A B C'"),
            (b"A\tx\tG1\n\tx\tG2\n", "line 2: the set has no name"),
            (b"A\tx\t\t\n", "line 1: the set 'A' has no genes"),
            (b"A\tG1\n", "line 1: the set 'A' has no genes .the second field is its description"),
            (b"A\tx\tG1\nB\tx\tG1\nA\tx\tG2\n", "line 3: the set 'A' is on line 1, too"),
            (b"A\tx\tG1\nB\t\xff\tG1\n", "line 2: this is not UTF-8"),
            (b"\n  \n", "no gene sets"),
            (gzip.compress(b"A\tx\tG1\n", mtime=0), "is compressed, but its name"),
        ],
        ids=[
            *("no tab", "no name", "no genes", "one field", "twice", "no text", "blank"),
            "compressed",
        ],
    )
    def test_errors_name_the_line(self, content, message, tmp_path):
        (tmp_path / "sets.gmt").write_bytes(content)
        with pytest.raises(ValueError, match=rf"sets.gmt.*{message}"):
            read_gmt(tmp_path / "sets.gmt")

    def test_names_that_come_twice(self):
        text = "A\tx\tG1\tG2\nA\tx\tG2\tG3\nA\tx\tG4\n"
        assert read_gmt(io.StringIO(text), duplicates="merge") == {"A": ("G1", "G2", "G3", "G4")}
        renamed = read_gmt(io.StringIO(text), duplicates="rename")
        assert renamed == {"A": ("G1", "G2"), "A (2)": ("G2", "G3"), "A (3)": ("G4",)}
        with pytest.raises(ValueError, match="use 'error', 'merge' or 'rename'"):
            read_gmt(io.StringIO(text), duplicates="first")

    def test_damaged_files(self, tmp_path):
        (tmp_path / "sets.gmt.gz").write_bytes(gzip.compress(b"A\tx\tG1\n" * 100)[:-9])
        with pytest.raises(ValueError, match="not a whole compressed file"):
            read_gmt(tmp_path / "sets.gmt.gz")
        with pytest.raises(FileNotFoundError):
            read_gmt(tmp_path / "other.gmt")


class TestAnnData:
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
    def test_everything(self, kind):
        v = views(cells(kind), labels="state")
        assert sparse.issparse(v.X) == (kind is not np.asarray)
        pd.testing.assert_frame_equal(
            by_name(v), pd.DataFrame(TABLE, SAMPLES, GENES), check_index_type=False
        )
        assert v.y.tolist() == LABELS.tolist()
        assert list(v.groups) == list(v.views) == ["X"]
        assert v.present.all()
        assert str(v.report) == "Nothing was left out."

    def test_overlapping_sets(self):
        v = views(cells(), groups=SETS, min_size=2)
        assert isinstance(v.X, sparse.csr_array)
        assert v.columns.tolist() == GENES[:7]  # a gene of two sets is there once
        assert {name: v.columns[found].tolist() for name, found in v.groups.items()} == {
            "A": ["G0", "G1", "G2"],
            "B": ["G2", "G3", "G4", "G5", "G6"],
        }
        np.testing.assert_array_equal(v.X.toarray(), TABLE[:, :7])
        assert v.y is None

    def test_report(self):
        v = views(cells(), groups=SETS, min_size=2, max_size=4)
        frame = v.report.frame().set_index("group")
        assert frame["found"].tolist() == [3, 5, 1, 0]
        assert frame.loc["A", "missing"] == "absent"
        assert frame.loc["A", "fraction"] == 0.75
        assert frame.loc["A", "dropped"] == ""
        assert frame.loc["B", "dropped"] == "5 columns are more than max_size=4"
        assert frame.loc["tiny", "dropped"] == "fewer than min_size=2 columns"
        text = str(v.report)
        assert text.startswith("1 of 4 gene sets are groups; 9 of 12 genes were found (75%).")
        assert "A: 3 of 4 genes found (75%)" in text
        assert "none: 0 of 1 genes found (0%); dropped, fewer" in text
        assert "Views of 60 samples × 3 columns (sparse" in repr(v)
        assert "3 gene sets dropped" in repr(v)
        pytest.importorskip("polars", reason="polars is not installed")
        assert v.report.frame("polars").shape == (4, 9)

    def test_names_of_genes(self):
        data = cells()
        sets = {"A": ["SYM0", "SYM3", "SYM4"]}
        v = views(data, groups=sets, gene_names="symbol", ignore_case=True, min_size=1)
        assert v.columns.tolist() == ["G0", "G3", "G4"]
        data.var["symbol"] = ["one", "one", None, *["other"] * 9]
        v = views(data, groups={"A": ["one", "none"]}, gene_names="symbol", min_size=1)
        assert v.columns.tolist() == ["G0", "G1"]
        assert v.report.matches[0].found == 1
        with pytest.raises(ValueError, match=r"None of the 1 gene sets.*SYM0.*'symbol'.*ignore_c"):
            views(data, groups=sets)
        with pytest.raises(ValueError, match=r"gene_names='ens' is no column of var; .* symbol"):
            views(data, groups=sets, gene_names="ens")
        with pytest.raises(ValueError, match="this is no MuData: give a column"):
            views(data, groups=sets, gene_names={"rna": "symbol"})

    def test_layers_and_obsm(self):
        v = views(cells(), layers=["X", "doubled"], obsm=["X_pca", "scores"])
        assert isinstance(v.X, sparse.csr_array)
        assert {name: found.size for name, found in v.views.items()} == {
            "X": 12,
            "doubled": 12,
            "X_pca": 3,
            "scores": 2,
        }
        frame = by_name(v)
        np.testing.assert_array_equal(frame["doubled:G3"], 2 * frame["X:G3"])
        np.testing.assert_array_equal(frame["X_pca:1"], numbers(1, 3)[:, 1])
        np.testing.assert_array_equal(frame["scores:v"], numbers(2, 2)[:, 1])
        alone = views(cells(), layers=(), obsm="X_pca")
        assert isinstance(alone.X, np.ndarray)
        assert alone.columns.tolist() == ["X_pca:0", "X_pca:1", "X_pca:2"]
        mixed = views(cells(), obsm="scores", groups=SETS, min_size=2)
        assert list(mixed.groups) == ["A", "B", "scores"]
        assert mixed.columns.tolist() == [*GENES[:7], "scores:u", "scores:v"]
        by_layer = views(cells(), layers=["X", "doubled"], groups=SETS, min_size=2)
        assert list(by_layer.groups) == ["X:A", "X:B", "doubled:A", "doubled:B"]

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
    def test_files(self, kind, tmp_path, monkeypatch):
        monkeypatch.setattr(blocks, "ENTRIES", 100)  # several parts of a file
        path = tmp_path / "cells.h5ad"
        cells(kind).write_h5ad(path)
        (tmp_path / "sets.gmt").write_text("A\tx\tG1\tG0\nB\t\tG4\tG1\n")
        expected = views(cells(kind), labels="state", groups={"A": ["G0", "G1"], "B": ["G1", "G4"]},
                         min_size=1)  # fmt: skip
        backed = ad.read_h5ad(path, backed="r")
        for data in (backed, path, str(path), backed[:]):
            v = views(data, labels="state", groups=tmp_path / "sets.gmt", min_size=1)
            pd.testing.assert_frame_equal(by_name(v), by_name(expected))
            assert sparse.issparse(v.X) == (kind is not np.asarray)
            assert v.y.tolist() == LABELS.tolist()
        model = MKLClassifier([Linear()]).fit(backed, LABELS)  # whole, straight from the file
        np.testing.assert_array_equal(
            model.decision_function(backed), model.decision_function(cells(kind))
        )
        backed.file.close()

    def test_labels(self):
        data = cells()
        assert views(data, labels="dose").y.dtype == float
        data.obs["state"] = data.obs["state"].where(np.arange(N) > 2)
        with pytest.raises(ValueError, match=r"missing in 3 of 60 samples \(s0, s1, s2\).*'drop'"):
            views(data, labels="state")
        v = views(data, labels="state", unlabeled="drop")
        assert v.samples.tolist() == SAMPLES[3:]
        assert v.y.tolist() == LABELS[3:].tolist()
        assert v.report.unlabeled == ("s0", "s1", "s2")
        assert "3 samples have no label and were left out: s0, s1, s2." in str(v.report)
        with pytest.raises(ValueError, match=r"no column 'kind' in obs.*state, dose"):
            views(data, labels="kind")
        data.obs["state"] = pd.Categorical([None] * N)
        with pytest.raises(ValueError, match="missing in all samples"):
            views(data, labels="state", unlabeled="drop")

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"layers": "raw"}, ValueError, "no layer 'raw'; there is X, doubled"),
            ({"obsm": "umap"}, ValueError, "no obsm 'umap'; there is X_pca, scores"),
            ({"layers": ()}, ValueError, "No table was asked for"),
            ({"obsm": ["X_pca"] * 2}, ValueError, "Several tables would be called 'X_pca'"),
            ({"modalities": "rna"}, ValueError, "are for a MuData"),
            ({"layers": {"rna": "X"}}, ValueError, "layers by modality is for a MuData"),
            ({"groups": SETS, "layers": (), "obsm": "X_pca"}, ValueError, "obsm has no genes"),
            ({"groups": {"rna": SETS}}, ValueError, "gene sets for 'rna', but the tables .* X"),
            ({"groups": {"A": [1, 2]}}, TypeError, "'A' must be a list of names"),
            ({"groups": {}}, TypeError, "groups must be a mapping"),
            ({"min_size": 0}, ValueError, "min_size must be at least 1"),
            ({"max_size": 2}, ValueError, "max_size None or as large"),
            ({"unlabeled": "keep"}, ValueError, "use 'error' or 'drop'"),
            ({"incomplete": "fill"}, ValueError, "use 'keep' or 'drop'"),
            (
                {"groups": {"X_pca": ["G0"]}, "obsm": "X_pca", "min_size": 1},
                ValueError,
                "is a gene set and a table",
            ),
        ],
    )
    def test_errors(self, options, error, message):
        with pytest.raises(error, match=message):
            views(cells(), **options)

    def test_bad_data(self, tmp_path):
        with pytest.raises(TypeError, match=r"AnnData, a MuData or the path .* got ndarray"):
            views(TABLE)
        with pytest.raises(FileNotFoundError, match="There is no file"):
            views(tmp_path / "cells.h5ad")
        (tmp_path / "cells.loom").touch()
        with pytest.raises(ValueError, match=r"end in \.loom are not known; use \.h5ad"):
            views(tmp_path / "cells.loom")
        with pytest.raises(ValueError, match="X is empty"):
            views(ad.AnnData(obs=cells().obs))
        twice = cells()
        twice.var_names = ["G0", "G0", *GENES[2:]]
        with pytest.raises(ValueError, match=r"var_names must be unique.*'G0'.*make_unique"):
            views(twice)
        words = cells()
        words.obsm["words"] = pd.DataFrame({"a": ["b"] * N}, index=SAMPLES)
        with pytest.raises(ValueError, match="'words' must hold numbers, but the columns a do not"):
            views(words, obsm="words")
        with pytest.raises(ValueError, match="The view 'X' has no columns"):
            views(cells()[:, :0].copy())
        empty = ad.AnnData(np.zeros((N, 0)), obs=pd.DataFrame(index=SAMPLES))
        with pytest.raises(ValueError, match="The view 'protein' has no columns"):
            views(md.MuData({"rna": cells(), "protein": empty}))


HEAP = 4096  # bytes of a global heap of HDF5


class TestDamagedFiles:
    """They are read or refused with a sentence that names the file, whichever package notices."""

    @pytest.fixture(scope="class", params=["h5ad", "h5mu"])
    def sound(self, request, tmp_path_factory):
        path = tmp_path_factory.mktemp("omics") / f"sound.{request.param}"
        cells().write_h5ad(path) if request.param == "h5ad" else tissue().write_h5mu(path)
        return path

    def read(self, path):
        try:
            views(path, labels="state")
        except (ValueError, OSError) as error:
            assert str(path) in str(error)  # noqa: PT017
            return False
        return True

    def test_cut_short_or_overwritten(self, sound, tmp_path):
        whole, rng = sound.read_bytes(), np.random.default_rng(0)
        for number, end in enumerate(np.linspace(0, len(whole) - 1, 12).astype(int)):
            path = tmp_path / f"{number}{sound.suffix}"
            path.write_bytes(whole[:end])
            assert not self.read(path)
        for number in range(12):
            path, other = tmp_path / f"other{number}{sound.suffix}", bytearray(whole)
            for place in rng.integers(len(whole), size=20):
                # HDF5 itself does not come back from some damage within a global heap
                if whole.rfind(b"GCOL", max(0, place - HEAP), place + 4) < 0:
                    other[place] = rng.integers(256)
            path.write_bytes(bytes(other))
            self.read(path)

    @pytest.mark.parametrize("change", ["dropped", "without attributes", "numbers"])
    def test_entries_of_another_kind(self, sound, change, tmp_path):
        names: list[str] = []
        with h5py.File(sound, "r") as file:
            file.visit(names.append)
        chosen = [name for name in names if not name.endswith("/indptr")][:: len(names) // 10]
        main = [name for name in names if name in ("X", "obs", "mod/rna/X", "mod/rna/X/indices")]
        refused = 0
        for number, name in enumerate([*chosen, *main]):
            path = tmp_path / f"{number}{sound.suffix}"
            shutil.copy(sound, path)
            with h5py.File(path, "a") as file:
                if change == "without attributes":
                    file[name].attrs.clear()
                else:
                    del file[name]
                if change == "numbers":
                    file[name] = np.full(3, 2**20)
            refused += not self.read(path)
        assert refused


class TestMuData:
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
    def test_samples_are_brought_together(self, kind):
        v = views(tissue(kind), labels="state")
        assert sparse.issparse(v.X) == (kind is not np.asarray)
        frame = by_name(v).loc[SAMPLES]
        np.testing.assert_array_equal(frame[[f"rna:{gene}" for gene in GENES]], TABLE)
        np.testing.assert_array_equal(frame[["protein:P1"]].iloc[5:], numbers(3, 4)[5:, 1:2])
        assert frame.filter(like="protein:").iloc[:5].isna().all(axis=None)
        here = pd.DataFrame(v.present, index=v.samples, columns=list(v.views)).loc[SAMPLES]
        assert here["rna"].all()
        assert here["protein"].tolist() == [False] * 5 + [True] * 55
        assert v.report.lacking == {"protein": 5}
        assert pd.Series(v.y, v.samples).loc[SAMPLES].tolist() == LABELS.tolist()
        assert "protein: 4 columns, 5 samples lack it" in repr(v)
        with pytest.raises(ValueError, match=r"(?s)NaN.*'protein' has missing values in 5 of 60"):
            MKLClassifier(on_groups(v.groups)).fit(v, v.y)

    def test_only_complete_samples(self):
        v = views(tissue(), labels="state", incomplete="drop")
        assert set(v.samples) == set(SAMPLES[5:])
        assert set(v.report.incomplete) == set(SAMPLES[:5])
        assert "5 samples lack a view and were left out" in str(v.report)
        assert v.present.all()
        assert not np.isnan(v.X.data).any()
        assert MKLClassifier(on_groups(v.groups)).fit(v, v.y).score(v, v.y) > 0.8

    def test_gene_sets(self):
        sets = {"A": ["G1", "G2"], "B": ["P1", "P2", "G3"]}
        v = views(tissue(), groups=sets, min_size=1)
        named = {name: v.columns[found].tolist() for name, found in v.groups.items()}
        assert named == {
            "rna:A": ["rna:G1", "rna:G2"],
            "rna:B": ["rna:G3"],
            "protein:A": ["protein:G2"],
            "protein:B": ["protein:P1", "protein:P2"],
        }
        joint = views(tissue(), groups=sets, min_size=1, split=False)
        named = {name: joint.columns[found].tolist() for name, found in joint.groups.items()}
        assert named["A"] == ["rna:G1", "rna:G2", "protein:G2"]
        assert joint.report.matches[1].missing == ()
        by_view = views(tissue(), groups={"rna": sets}, min_size=2)
        assert {name: found.size for name, found in by_view.groups.items()} == {
            "rna:A": 2,
            "protein": 4,
        }

    def test_layers_obsm_and_modalities(self):
        data = tissue()
        data.obsm["factors"] = numbers(4, 2)
        v = views(data, layers={"rna": ["doubled"]}, obsm={"rna": "X_pca"})
        assert list(v.views) == ["rna:doubled", "rna:X_pca", "protein"]
        v = views(data, modalities="rna", obsm="factors")
        assert list(v.views) == ["rna", "factors"]
        np.testing.assert_array_equal(by_name(v)[["factors:0", "factors:1"]], numbers(4, 2))

    def test_files(self, tmp_path):
        path = tmp_path / "tissue.h5mu"
        tissue().write_h5mu(path)
        expected = views(tissue(), labels="state")
        backed = md.read_h5mu(path, backed="r")
        for data in (path, backed, md.read_h5mu(path)):
            v = views(data, labels="state")
            assert isinstance(v.X, sparse.csr_array)
            pd.testing.assert_frame_equal(by_name(v), by_name(expected))
            np.testing.assert_array_equal(v.present, expected.present)
        backed.file.close()

    def test_labels_of_a_modality(self):
        data = md.MuData({"rna": cells(), "protein": tissue().mod["protein"]})
        assert views(data, labels="rna:state").y.tolist() == LABELS.tolist()

    def test_errors(self):
        with pytest.raises(ValueError, match=r"no modality 'atac' among those.*rna, prot"):
            views(tissue(), modalities="atac")
        with pytest.raises(ValueError, match="no layer 'doubled' of modality 'protein'"):
            views(tissue(), layers="doubled")
        with pytest.raises(TypeError, match=r"A MuData is several tables.*omics\.views"):
            MKLClassifier().fit(tissue(), LABELS)
        apart = md.MuData({"a": cells(), "b": cells()}, axis=1)
        with pytest.raises(ValueError, match="shares variables"):
            views(apart)
        alone = tissue()
        alone.mod["protein"].obs_names = ["new", *SAMPLES[6:]]
        with pytest.raises(ValueError, match=r"1 samples that the MuData does not know \(new\)"):
            views(alone)
        lonely = md.MuData({"a": cells()[:30].copy(), "b": tissue().mod["protein"][25:].copy()})
        with pytest.raises(ValueError, match="No sample has all views"):
            views(lonely, incomplete="drop")


GROUPS = {"one": ["G0", "G1"], "two": GENES[2:]}


class TestEstimators:
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
    def test_anndata_as_x(self, kind):
        frame = pd.DataFrame(TABLE, columns=GENES)
        expected = MKLClassifier(on_groups(GROUPS), p=2.0, scale=None).fit(frame, LABELS)
        data = cells(kind)
        model = MKLClassifier(on_groups(GROUPS), p=2.0, scale=None).fit(data, data.obs["state"])
        assert model.feature_names_in_.tolist() == GENES
        np.testing.assert_allclose(
            model.decision_function(data), expected.decision_function(frame), atol=1e-5
        )
        np.testing.assert_allclose(
            model.decision_function(frame), model.decision_function(data), atol=1e-6
        )
        assert set(model.predict(data[:7])) <= {"high", "low"}

    def test_columns_by_name(self):
        data = cells()
        model = MKLClassifier(on_groups(GROUPS)).fit(data, LABELS)
        with pytest.raises(ValueError, match="same order"):
            model.predict(data[:, ::-1])
        with pytest.raises(ValueError, match=r"(?s)missing.*G11.*Group 'two' lacks 2 of its 10"):
            model.predict(data[:, :10])
        twice = cells()
        twice.var_names = ["G0", "G0", *GENES[2:]]
        with pytest.raises(ValueError, match="var_names must be unique"):
            MKLClassifier().fit(twice, LABELS)
        with pytest.raises(ValueError, match="has no X"):
            MKLClassifier().fit(ad.AnnData(obs=data.obs, var=data.var), LABELS)

    @pytest.mark.parametrize("make", [cells, lambda: views(cells(), groups=SETS, min_size=2)])
    def test_scikit_learn(self, make):
        data = make()
        kernels = [RBF("median"), Linear()]
        assert cross_val_score(MKLClassifier(kernels), data, LABELS, cv=3).mean() > 0.6
        train, test, y_train, y_test = train_test_split(data, LABELS, random_state=0)
        assert MKLClassifier(kernels).fit(train, y_train).score(test, y_test) > 0.6
        tuned = MKLClassifierCV(kernels, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=3).fit(data, LABELS)
        assert tuned.scores_.shape == (3, 2, 2)
        assert MKLClassifier(kernels, p="auto").fit(data, LABELS).score(data, LABELS) > 0.8

    def test_other_estimators(self):
        data = cells()
        assert MKLRegressor([Linear()], C=100.0).fit(data, data.obs["dose"]).predict(data).size == N
        assert set(MKLOneClass([RBF()]).fit(data).predict(data)) <= {-1, 1}
        with pytest.raises(TypeError, match=r"give adata\.to_df\(\)"):
            MKLFeatureSelector().fit(data, LABELS)

    def test_views_with_groups(self, tmp_path):
        v = views(cells(), labels="state", groups=SETS, min_size=2)
        kernels = on_groups(v.groups)
        model = MKLClassifier(kernels, p=2.0).fit(v, v.y)
        assert list(model.group_weights_) == ["A", "B"]
        assert model.kernel_names_[0].endswith(" on G0, G1, G2")
        plain = MKLClassifier(kernels, p=2.0).fit(v.X, v.y)
        np.testing.assert_array_equal(plain.decision_function(v.X), model.decision_function(v))
        tuned = MKLClassifierCV(kernels, Cs=[1.0], ps=[1.0, 2.0], cv=3).fit(v, v.y)
        for one in (model, tuned):
            save(one, tmp_path / "model.mk")
            again = load(tmp_path / "model.mk")
            np.testing.assert_array_equal(again.decision_function(v), one.decision_function(v))
            assert again.feature_names_in_.tolist() == v.columns.tolist()

    def test_rows(self):
        v = views(tissue(), labels="state")
        some = v[[3, 1]]
        assert some.samples.tolist() == v.samples[[3, 1]].tolist()
        assert some.y.tolist() == v.y[[3, 1]].tolist()
        assert some.present.tolist() == v.present[[3, 1]].tolist()
        assert v[2].shape == (1, 16)
        assert len(v[v.present.all(axis=1)]) == 55
        with pytest.raises(IndexError, match="by samples alone"):
            v[:, 3]

    @pytest.mark.parametrize("make", [cells, tissue])
    def test_new_data_like_old(self, make):
        trained = views(make(), labels="state", groups=SETS, min_size=2, incomplete="drop")
        model = MKLClassifier(on_groups(trained.groups)).fit(trained, trained.y)
        new = make()[::-1].copy()
        if make is cells:
            new = new[:, ::-1].copy()
        v = views(new, labels="state", like=trained, incomplete="drop")
        pd.testing.assert_frame_equal(by_name(v).loc[trained.samples], by_name(trained))
        assert model.score(v, v.y) == model.score(trained, trained.y)
        with pytest.raises(ValueError, match="like= says what the columns are; leave out groups"):
            views(new, groups=SETS, like=trained)

    @pytest.mark.parametrize("make", [cells, tissue])
    def test_labels_of_new_data(self, make):
        """They come along where every sample has one."""
        trained, new = views(make(), labels="state"), make()[::-1].copy()
        np.testing.assert_array_equal(views(new, like=trained).y, trained.y[::-1])
        new.obs["state"] = new.obs["state"].astype(object).where(np.arange(N) > 4)
        assert views(new, like=trained).y is None
        assert len(views(new, like=trained, unlabeled="drop").y) == N - 5
        del new.obs["state"]
        assert views(new, like=trained).y is None
        assert views(make(), like=views(make())).y is None

    def test_a_modality_that_all_new_samples_lack(self):
        trained = views(tissue(np.asarray), labels="state")
        groups = on_groups(trained.groups)
        model = MKLClassifier(groups, missing="mean").fit(trained, trained.y)
        alone = md.MuData({"rna": cells(np.asarray)})
        alone.obs["state"] = pd.Series(LABELS, index=SAMPLES)
        v = views(alone, like=trained)
        assert list(v.columns) == list(trained.columns)
        assert v.present.all(axis=0).tolist() == [True, False]
        assert v.report.lacking == {"protein": N}
        lacking = tissue(np.asarray)
        lacking.mod["protein"].X[:] = np.nan
        lacking.update()
        expected = views(lacking, like=trained)
        pd.testing.assert_frame_equal(by_name(v), by_name(expected).loc[v.samples])
        assert model.score(v, v.y) == model.score(expected, expected.y)
        with pytest.raises(ValueError, match="NaN"):
            MKLClassifier(groups).fit(trained[5:], LABELS[5:]).predict(v)

    def test_new_data_that_lack_something(self):
        trained = views(cells(), groups=SETS, min_size=2)
        with pytest.raises(ValueError, match=r"'X' lacks 3 of the 7 columns.*: G0, G1, G2"):
            views(cells()[:, 3:].copy(), like=trained)
        with pytest.raises(ValueError, match="a table of an AnnData, and this is a MuData"):
            views(tissue(), like=trained)
        trained = views(tissue())
        with pytest.raises(ValueError, match="no modality 'rna'; there is none: it is an AnnData"):
            views(cells(), like=trained)


class TestStore:
    def test_weights_and_predictions(self, tmp_path):
        data = cells()
        v = views(data, labels="state", groups=SETS, min_size=2)
        model = MKLClassifier(on_groups(v.groups), p=1.5, C=2.0).fit(v, v.y)
        store(model, data, v, predict=True)
        data.write_h5ad(tmp_path / "cells.h5ad")
        again = ad.read_h5ad(tmp_path / "cells.h5ad")
        kept = again.uns["manykernels"]
        assert (kept["C"], kept["p"], kept["estimator"]) == (2.0, 1.5, "MKLClassifier")
        assert kept["gap"] == model.result_.duality_gap
        frame = model.weights_frame()
        assert kept["weights"]["kernel"].tolist() == frame["kernel"].tolist()
        np.testing.assert_array_equal(kept["weights"]["weight"], frame["weight"])
        assert kept["groups"]["share"].to_dict() == pytest.approx(model.group_weights_)
        shares = model.group_weights_
        expected = [shares["A"]] * 2 + [1.0] + [shares["B"]] * 4 + [0.0] * 5
        np.testing.assert_allclose(again.var["manykernels_weight"], expected)
        assert again.obs["manykernels_prediction"].tolist() == model.predict(v).tolist()

    def test_of_an_anndata_itself(self, tmp_path):
        data = cells()
        model = MKLClassifier([RBF(features=["G0", "G1"]), Linear()]).fit(data, LABELS)
        store(model, data, key="mkl", predict=True)
        shares = model.weights_frame().set_index("kernel")["share"]
        on_two = shares[[name for name in shares.index if name.endswith("G0, G1")]].sum()
        np.testing.assert_allclose(data.var["mkl_weight"], [1.0, 1.0, *[1.0 - on_two] * 10])
        data.write_h5ad(tmp_path / "cells.h5ad")
        assert ad.read_h5ad(tmp_path / "cells.h5ad").uns["mkl"]["converged"]

    @pytest.mark.parametrize("share_weights", [True, False])
    def test_several_classes_of_a_mudata(self, share_weights, tmp_path):
        data = tissue()
        names = np.array(["a/b", "c", "d"])
        data.obs["kind"] = pd.Series(names[np.arange(N) % 3], index=SAMPLES)
        v = views(data, labels="kind", incomplete="drop")
        model = MKLClassifierCV(
            on_groups(v.groups), Cs=[1.0], ps=[2.0], cv=2, share_weights=share_weights
        ).fit(v, v.y)
        store(model, data, v, predict=True)
        data.write_h5mu(tmp_path / "tissue.h5mu")
        again = md.read_h5mu(tmp_path / "tissue.h5mu")
        assert again.uns["manykernels"]["p"] == 2.0
        if not share_weights:
            np.testing.assert_array_equal(
                again.uns["manykernels"]["output_weights"], model.kernel_weights_
            )
            assert again.uns["manykernels"]["outputs"].tolist() == names.tolist()
        weights = again.mod["protein"].var["manykernels_weight"]
        np.testing.assert_allclose(weights, model.group_weights_["protein"])
        predicted = again.obs["manykernels_prediction"]
        assert predicted[SAMPLES[:5]].isna().all()
        assert predicted[v.samples].tolist() == model.predict(v).tolist()

    def test_regression(self, tmp_path):
        data = cells()
        v = views(data, labels="dose", obsm="X_pca")
        model = MKLRegressor(on_groups(v.groups), regularizer=None).fit(v, v.y)
        store(model, data, v, predict=True)
        data.write_h5ad(tmp_path / "cells.h5ad")
        again = ad.read_h5ad(tmp_path / "cells.h5ad")
        np.testing.assert_allclose(again.obs["manykernels_prediction"], model.predict(v))
        np.testing.assert_allclose(again.var["manykernels_weight"], model.group_weights_["X"])

    def test_errors(self):
        data = cells()
        v = views(data, labels="state", groups=SETS, min_size=2)
        model = MKLClassifier(on_groups(v.groups)).fit(v.X, v.y)
        with pytest.raises(ValueError, match=r"give the views.*store\(model, data, views\)"):
            store(model, data)
        with pytest.raises(ValueError, match=r"fitted on other columns \(7\).*have \(12\)"):
            store(model, data, views(data))
        with pytest.raises(ValueError, match="data lack 1 genes of the model: G6"):
            store(model, data[:, :6].copy(), v)
        with pytest.raises(TypeError, match="an estimator of this library, got str"):
            store("model", data)
        with pytest.raises(ValueError, match="not those of a sum"):
            store(MKLClassifier(combination="product").fit(v, v.y), data, v)


@pytest.mark.parametrize(("package", "name"), [("anndata", "a.h5ad"), ("mudata", "a.h5mu")])
def test_without_its_packages(package, name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).touch()
    with pytest.raises(ImportError, match=rf"{name} needs {package}: .*manykernels\[omics\]"):
        views(tmp_path / name)


def test_real_cells_and_gene_sets(tmp_path):
    """The groups are those that come with the data; on them, most cells are told right."""
    archive, sets = data_folder() / "pbmc_dc_mono.npz", data_folder() / "hallmark.gmt"
    if not (archive.exists() and sets.exists()):
        pytest.skip(f"the cells and gene sets are not here ({archive.parent})")
    with np.load(archive) as stored:
        given = dict(stored)
    kinds = np.where(given["y"] > 0, "monocyte", "dendritic")
    data = ad.AnnData(
        sparse.csr_matrix(given["X"]),
        obs=pd.DataFrame({"kind": kinds}, index=[f"c{i}" for i in range(len(kinds))]),
        var=pd.DataFrame(index=given["genes"].astype(str)),
    )
    data.write_h5ad(tmp_path / "cells.h5ad")
    v = views(tmp_path / "cells.h5ad", labels="kind", groups=sets)
    members = np.split(given["members"], given["offsets"][1:-1])
    expected = {
        str(name): sorted(given["genes"][columns].tolist())
        for name, columns in zip(given["names"], members, strict=True)
        if len(columns) >= 5
    }
    assert {name: sorted(v.columns[found]) for name, found in v.groups.items()} == expected
    assert len(v.report.matches) == 50
    train = given["train"]
    kernels = on_groups(v.groups, [RBF("median"), Linear()])
    model = MKLClassifier(kernels, p=2.0).fit(v[train], v.y[train])
    assert model.score(v[~train], v.y[~train]) > 0.75
