"""Data files of every ending: the same data from each, and clear errors."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from manykernels.readers import read_table, write_libsvm

X = np.array([[1.5, 0.0, -2.0], [0.0, 3.25, 0.1], [1e-7, 2.0, 3.0], [4.0, 5.0, 6.0]])
y = np.array([1, -1, 1, -1])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y)


def write(path):
    """The same data in the format of the ending."""
    ending = path.name.partition(".")[2]
    if ending in ("csv", "csv.gz", "tsv"):
        FRAME.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    elif ending == "parquet":
        FRAME.to_parquet(path)
    elif ending == "npz":
        np.savez_compressed(path, X=X, y=y)
    else:
        write_libsvm(path, X, y)
    return path


@pytest.mark.parametrize(
    "ending",
    [
        "csv",
        "csv.gz",
        "tsv",
        "parquet",
        "npz",
        "libsvm",
        "svm",
        "svmlight",
        "txt",
        "txt.gz",
        "svm.bz2",
    ],
)
def test_every_ending(tmp_path, ending):
    data = read_table(write(tmp_path / f"data.{ending}"))
    dense = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(data.y, y)
    named = ending in ("csv", "csv.gz", "tsv", "parquet")
    assert data.feature_names == (["a", "b", "c"] if named else None)
    assert data.target == ("label" if named else None)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_target_by_name(tmp_path, ending):
    path = write(tmp_path / f"data.{ending}")
    data = read_table(path, target="b")
    np.testing.assert_array_equal(data.y, X[:, 1])
    assert list(data.X.columns) == data.feature_names == ["a", "c", "label"]
    with pytest.raises(ValueError, match=r"has no column 'z' for the target; it has 'a', 'b'"):
        read_table(path, target="z")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_without_target(tmp_path, ending):
    path = write(tmp_path / f"data.{ending}")
    assert read_table(path, has_target=False).X.shape == (4, 4)
    assert read_table(path, has_target=False).y is None
    assert read_table(path, target="z", has_target=False).X.shape == (4, 4)
    np.testing.assert_array_equal(read_table(path, target="label", has_target=False).y, y)


def test_rows_whose_target_is_to_be_predicted(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,y\n1,2,\n3,4,5\n")
    data = read_table(tmp_path / "data.csv", target="y", has_target=False)
    assert data.y is None
    assert data.feature_names == ["a", "b"]


def test_archives_may_lack_the_target(tmp_path):
    np.savez(tmp_path / "data.npz", X=X)
    assert read_table(tmp_path / "data.npz", has_target=False).y is None
    with pytest.raises(ValueError, match="no target y"):
        read_table(tmp_path / "data.npz")


def test_sparse_archives(tmp_path):
    parts = sparse.csr_array(X)
    np.savez(
        tmp_path / "data.npz",
        data=parts.data,
        indices=parts.indices,
        indptr=parts.indptr,
        shape=parts.shape,
        y=y,
    )
    np.testing.assert_array_equal(read_table(tmp_path / "data.npz").X.toarray(), X)
    bad = parts.indices.copy()
    bad[0] = 99
    np.savez(
        tmp_path / "data.npz",
        data=parts.data,
        indices=bad,
        indptr=parts.indptr,
        shape=parts.shape,
        y=y,
    )
    with pytest.raises(ValueError, match="no valid CSR matrix"):
        read_table(tmp_path / "data.npz")


def test_columns_beyond_any_memory(tmp_path):
    """Memory is taken for what is there, not for what is claimed."""
    (tmp_path / "wide.libsvm").write_text("1 1:0.5 2000000000:1\n0 2:0.5\n")
    assert read_table(tmp_path / "wide.libsvm").X.shape == (2, 2 * 10**9)
    parts = {"data": [1.0], "indices": [2**62 - 1], "indptr": [0, 1, 1], "shape": [2, 2**62]}
    np.savez(tmp_path / "wide.npz", y=[0, 1], **parts)
    assert read_table(tmp_path / "wide.npz").X.shape == (2, 2**62)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators(tmp_path, separator, ending):
    header = ["a", '"b, c; d"', "y"]
    lines = [header, ["1.5", "2", "p"], ["-3", "4", "q"], ["0.25", "", "p"]]
    text = "".join(separator.join(line) + "\n" for line in lines)
    (tmp_path / f"data.{ending}").write_text("\ufeff" + text, encoding="utf-8")
    data = read_table(tmp_path / f"data.{ending}")
    assert data.feature_names == ["a", "b, c; d"]
    np.testing.assert_array_equal(data.X, [[1.5, 2.0], [-3.0, 4.0], [0.25, np.nan]])
    assert data.y.tolist() == ["p", "q", "p"]


def test_a_header_of_many_names(tmp_path):
    names = [f"column{place}" for place in range(20_000)]
    (tmp_path / "data.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    assert read_table(tmp_path / "data.csv").X.shape == (1, 19_999)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_commas_in_the_place_of_points(tmp_path, separator):
    text = "a;b;words;y\n1,5;2;1,5 m;0\n-0,1;3;2;1\n;-4,25e1;x;1\n"
    (tmp_path / "data.csv").write_text(text.replace(";", separator))
    with pytest.warns(UserWarning, match=r"decimal commas.* in 'a', 'b'\.") as warned:
        data = read_table(tmp_path / "data.csv")
    assert len(warned) == 1
    numbers = data.X[["a", "b"]].to_numpy()
    np.testing.assert_array_equal(numbers, [[1.5, 2.0], [-0.1, 3.0], [np.nan, -42.5]])
    assert data.X["words"].tolist() == ["1,5 m", "2", "x"]


def test_commas_in_names_and_points_between_thousands(tmp_path):
    text = "size, in cm, or so\tb\ty\n1.234,5\t2\tu\n-12.345.678,\t3\tv\n6,5\t3\tv\n"
    (tmp_path / "data.csv").write_text(text)
    with pytest.warns(UserWarning, match="decimal commas"):
        data = read_table(tmp_path / "data.csv")
    assert data.feature_names == ["size, in cm, or so", "b"]
    assert data.X.iloc[:, 0].tolist() == [1234.5, -12345678.0, 6.5]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_marks_of_missing_numbers(tmp_path, separator):
    decimal = "," if separator == "\t" else "."
    text = f"a|b|word|y\n1{decimal}5|?|?|0\nUnknown|2|x|1\n-| ? |x|1\n"
    (tmp_path / "data.csv").write_text(text.replace("|", separator))
    with pytest.warns(UserWarning, match=r"missing ones, in 'a', 'b'\."):
        data = read_table(tmp_path / "data.csv")
    expected = [[1.5, np.nan], [np.nan, 2.0], [np.nan, np.nan]]
    np.testing.assert_array_equal(data.X[["a", "b"]], expected)
    assert data.X["word"].tolist() == ["?", "x", "x"]


def test_dates_are_days(tmp_path):
    text = (
        "iso,month,german,clock,british,either,word,y\n"
        "1970-01-03,1970-02,3.1.1970,1970-01-01 12:00,13/01/1970,1/2/1970,1.2.3,0\n"
        ",1970-03,03.01.1970,1970-01-03T00:00:00Z,01/02/1970,3/3/1970,4.5.6,1\n"
    )
    (tmp_path / "data.csv").write_text(text)
    with (
        pytest.warns(UserWarning, match="'either' are taken for words, .* '1/2/1970'"),
        pytest.warns(UserWarning, match="days .* in 'iso', 'month', 'german', 'clock', 'british'"),
    ):
        data = read_table(tmp_path / "data.csv")
    expected = [[2.0, 31.0, 2.0, 0.5, 12.0], [np.nan, 59.0, 2.0, 2.0, 31.0]]
    np.testing.assert_array_equal(data.X[list(data.dates)], expected)
    assert data.X["word"].tolist() == ["1.2.3", "4.5.6"]
    (tmp_path / "new.csv").write_text("british\n02/03/1970\n\n")
    with pytest.warns(UserWarning, match="'british'"):
        new = read_table(tmp_path / "new.csv", has_target=False, dates=data.dates)
    assert new.X["british"].tolist() == [60.0]
    (tmp_path / "new.csv").write_text("british\n02/03/1970\n1970-03-02\n")
    with pytest.raises(ValueError, match=r"'1970-03-02' in row 2, .* written as 30/04/2026"):
        read_table(tmp_path / "new.csv", has_target=False, dates=data.dates)


def test_dates_of_parquet(tmp_path):
    days = pd.to_datetime(["1970-01-02", None])
    frame = pd.DataFrame({"a": days, "b": days.date, "c": days.tz_localize("UTC"), "y": [0, 1]})
    frame.to_parquet(tmp_path / "data.parquet")
    with pytest.warns(UserWarning, match="'a', 'b', 'c'"):
        data = read_table(tmp_path / "data.parquet")
    np.testing.assert_array_equal(data.X, [[1.0] * 3, [np.nan] * 3])


def test_some_of_the_columns(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,mixed,y\n1,2,3,0\n4,5,x,1\n6,7,8,1\n")
    for options in ({"drop": ["mixed"]}, {"columns": ["b", "a"]}):
        assert read_table(tmp_path / "data.csv", **options).feature_names == ["a", "b"]
    with pytest.raises(ValueError, match="lacks the columns 'c'; it has 'a', 'b', 'mixed', 'y'"):
        read_table(tmp_path / "data.csv", drop=["c"])
    with pytest.raises(ValueError, match="'y' is the target"):
        read_table(tmp_path / "data.csv", drop=["y"])
    np.savez(tmp_path / "data.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(ValueError, match="no named columns to choose from, such as 'a'"):
        read_table(tmp_path / "data.npz", drop=["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a\ty\n1,5\t0\n2.5\t1\n3\t0\n",
            "comma and with .*point, such as '1,5' and '2.5' in row 2",
        ),
        ("a\ty\n1,5\t0\n2,5\t1\nx\t0\n", r"mixes numbers with text, such as 'x' in row 3"),
        ("1,5\t0\n2,5\t1\n", "line of column names.*holds numbers"),
    ],
)
def test_bad_text_with_decimal_commas(tmp_path, text, message):
    (tmp_path / "data.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "data.tsv")


def test_quoted_commas_between_commas_are_words(tmp_path):
    (tmp_path / "data.csv").write_text('a,y\n"1,5",0\n"2,5",1\n')
    assert read_table(tmp_path / "data.csv").X["a"].tolist() == ["1,5", "2,5"]


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("latin-1", r"not UTF-8 text: line 3 holds the byte 0xfc; it may be Latin-1.*Save it"),
        ("utf-16", r"not UTF-8 text: line 1 .*begins as UTF-16 does.*Save it"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_other_encodings(tmp_path, encoding, message, ending):
    path = tmp_path / f"data.{ending}"
    with (gzip.open if ending.endswith("gz") else open)(path, "wb") as file:
        file.write("a,y\nMeier,1\nM\u00fcller,0\n".encode(encoding))
    with pytest.raises(ValueError, match=message):
        read_table(path)


def test_columns_keep_their_kinds(tmp_path):
    frame = pd.DataFrame(
        {
            "size": [1.5, 2.5, 3.5],
            "color": ["red", "blue", "red"],
            "old": [True, False, True],
            "y": ["p", "q", "p"],
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.astype({"color": "category"}).to_parquet(tmp_path / "data.parquet")
    for ending in ("csv", "parquet"):
        data = read_table(tmp_path / f"data.{ending}")
        assert data.X["size"].dtype == float
        assert data.X["old"].dtype == bool
        assert (data.X["color"].dtype == "category") == (ending == "parquet")
        assert data.X["color"].tolist() == ["red", "blue", "red"]
        assert data.y.tolist() == ["p", "q", "p"]


def test_numbers_of_text_are_exact(tmp_path, rng):
    values = rng.standard_normal((50, 2)) * 10.0 ** rng.integers(-200, 200, (50, 2))
    pd.DataFrame(values, columns=["a", "b"]).to_csv(tmp_path / "data.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "data.csv", has_target=False).X, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b,y\n", "has no rows"),
        ("y\n1\n2\n", "has no features.*commas, semicolons or tabs"),
        ("1,2,3\n4,5,6\n", "line of column names.*holds numbers"),
        ("a,y\n1,2,3\n4,5,6\n", "one name in its header"),
        ("a,y\n1,2\n4,5,6\n", "one name in its header.*line 3"),
        ('a,y\n"1,2\n4,5\n', "one name in its header"),
        ("a,y\n1,2\n4,\n", "target 'y' is missing in row 2"),
        ("a,y\n1,0\n2,1\nx,0\n4,1\n", r"column 'a' mixes numbers with text, such as 'x' in row 3"),
    ],
)
def test_bad_text(tmp_path, text, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "data.csv")


def test_bad_names(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_table(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match=r"end in .xlsx are not known; use .csv"):
        read_table(tmp_path / "data.xlsx")
    with pytest.raises(ValueError, match=r"end in .gz are not known"):
        read_table(tmp_path / "data.npz.gz")
    with pytest.raises(ValueError, match="no named columns"):
        read_table(write(tmp_path / "data.npz"), target="label")


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "csv.gz"])
def test_bytes_that_are_no_such_file(tmp_path, ending, rng):
    path = tmp_path / f"data.{ending}"
    for size in (1, 10, 1000):
        path.write_bytes(rng.bytes(size) + b"\xff")
        with pytest.raises(ValueError, match="data"):
            read_table(path)


def test_damaged_archives(tmp_path, rng):
    """Whatever byte of an archive is changed, the data are those that were written or there is an
    error.
    """
    path = write(tmp_path / "data.npz")
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            data = read_table(path)
        except ValueError:
            continue
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, y)


def archive_of(path, header, size):
    """An archive whose X has this header, and whose directory claims this size for it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        text = header.encode().ljust(117) + b"\n"
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        archive.infolist()[0].file_size = size or archive.infolist()[0].file_size
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize("size", [None, 8 * 10**9 + 128])
def test_archives_that_claim_too_much_are_refused_before_memory_is_asked_for(tmp_path, size):
    archive_of(
        tmp_path / "data.npz",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000)}",
        size,
    )
    with pytest.raises(
        ValueError, match=r"does not match the 128 bytes|cannot hold the 8000000128"
    ):
        read_table(tmp_path / "data.npz")


def test_objects_are_not_loaded(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.array([[{}]]), y=y)
    with pytest.raises(ValueError, match="Python objects"):
        read_table(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", X=X, y=y[:2])
    with pytest.raises(ValueError, match="one entry for each of the 4 rows"):
        read_table(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", Z=X)
    with pytest.raises(ValueError, match="it holds Z"):
        read_table(tmp_path / "data.npz")
