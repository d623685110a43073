"""LIBSVM text: every file gives what the slow reader gives, or an error that names the line."""

import bz2
import gzip
import io
import re
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from conftest import data_folder, examples
from manykernels._loops.libsvm import BAD, EXACT, read_number
from manykernels.readers import libsvm, read_libsvm, write_libsvm
from reference import LibsvmError, read_libsvm_slowly

MAX_LINE = 400
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.from_regex(r"[+-]?[0-9]{1,22}\.[0-9]{0,22}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[+-]?\.[0-9]{1,4}", fullmatch=True),
).filter(lambda text: np.isfinite(float(text)))
indices = st.one_of(st.integers(0, 20), st.integers(2**31 - 3, 2**31 + 1), st.integers(0, 10**25))
odd_words = st.sampled_from(
    [
        "nan",
        "inf",
        "-Infinity",
        "0x1p3",
        "1_0",
        "1,2",
        "3:",
        ":3",
        "3",
        "3:1:1",
        "qid:3",
        "\0",
        "1e",
        "1e999",
        "٣:1",
        ".",
    ]
)


def line_of(label, pairs, ending):
    return (" ".join([label, *(f"{index}:{value}" for index, value in pairs)]) + ending).encode()


ordered = st.dictionaries(st.integers(1, 20), numbers, max_size=5).map(
    lambda pairs: sorted(pairs.items())
)
endings = st.sampled_from(
    ["\n", "\r\n", " # a comment: 1:2\n", "\t\n", "#\n", "\n\n", "\n  \n# nothing\n"]
)
good_lines = st.builds(line_of, numbers, ordered, endings)
bad_lines = st.one_of(
    st.builds(
        line_of,
        st.one_of(numbers, odd_words),
        st.lists(st.tuples(indices, numbers), max_size=4),
        endings,
    ),
    st.builds(line_of, numbers, st.lists(st.tuples(indices, odd_words), max_size=2), endings),
    st.builds(
        lambda words: (" ".join(words) + "\n").encode(),
        st.lists(st.one_of(numbers, odd_words), max_size=4),
    ),
    st.binary(max_size=20),
    st.integers(1, 500).map(lambda size: b"#" * size + b"\n"),
)


def expected(data):
    """The slow reader's labels, dense rows and whether the file begins at 0, or the error."""
    try:
        labels, rows = read_libsvm_slowly(data, MAX_LINE)
    except LibsvmError as error:
        return error
    used = [index for row in rows for index in row]
    zero_based = 0 in used
    if max(used, default=0) + zero_based >= 2**31:
        return LibsvmError(next(n for n, row in enumerate(rows) if 2**31 - 1 in row))
    return labels, [
        {index - (not zero_based): value for index, value in row.items()} for row in rows
    ]


def given_by(data, chunk):
    with mock.patch.object(libsvm, "CHUNK", chunk):
        return read_libsvm(io.BytesIO(data), max_line=MAX_LINE)


def check_same(data, chunk):
    want = expected(data)
    if not isinstance(want, LibsvmError):
        X, y = given_by(data, chunk)
        np.testing.assert_array_equal(y, want[0])
        assert [
            dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
            for row in (X[[i]] for i in range(len(y)))
        ] == want[1]
        assert X.has_canonical_format
        return
    with pytest.raises(ValueError, match=r"line \d+: ") as caught:
        given_by(data, chunk)
    if "beyond" not in str(caught.value):
        assert int(re.search(r"line (\d+): ", str(caught.value)).group(1)) == want.line


@settings(max_examples=examples(150))
@given(
    lines=st.lists(good_lines, max_size=6),
    whole=st.booleans(),
    chunk=st.sampled_from([1, 7, 40, 2**22]),
)
def test_valid_files(lines, whole, chunk):
    data = b"".join(lines)
    check_same(data if whole else data.removesuffix(b"\n"), chunk)


@settings(max_examples=examples(250))
@given(
    lines=st.lists(st.one_of(good_lines, bad_lines), max_size=5),
    chunk=st.sampled_from([1, 7, 40, 2**22]),
)
@example(lines=[b"1 1:1e999\n", b"x\n"], chunk=2**22)
@example(lines=[b"\xef\xbb\xbf1 1:1\n"], chunk=1)
@example(lines=[b"\n", b"#" * 401 + b"\n"], chunk=1)
@example(lines=[b"1 2147483647:1\n", b"1 0:1\n"], chunk=7)
def test_damaged_files(lines, chunk):
    check_same(b"".join(lines), chunk)


@settings(max_examples=examples(200))
@given(lines=st.lists(good_lines, min_size=1, max_size=4), data=st.data())
def test_one_byte_is_changed(lines, data):
    text = bytearray(b"".join(lines))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    check_same(bytes(text), 2**22)


@settings(max_examples=examples(300))
@given(text=numbers)
@example(text="9007199254740993")  # half way between two floats
@example(text="9007199254740993e22")
@example(text="1000000000000000055511151231257827e-34")
@example(text="-0")
def test_numbers_are_rounded_as_float_rounds(text):
    value, end, kind = read_number(np.frombuffer(text.encode() + b"\n", dtype=np.uint8), 0)
    assert end == len(text)
    assert kind != BAD
    if kind == EXACT:
        assert repr(value) == repr(float(text))


def test_most_numbers_are_not_hard():
    """What the loop leaves to ``float`` is rare: a reader of 17 digits that always asks Python
    would be slow.
    """
    texts = [repr(value) for value in np.random.default_rng(0).standard_normal(2000).tolist()]
    kinds = [
        read_number(np.frombuffer(text.encode() + b"\n", dtype=np.uint8), 0)[2] for text in texts
    ]
    assert np.mean(np.array(kinds) == EXACT) > 0.99


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"one 1:2", r"line 2: a line must begin with its label.* got 'one'"),
        (b"1,2 1:2", r"line 2: .*several labels.* got '1,2'"),
        (b"nan 1:2", r"line 2: .*finite.* got 'nan'"),
        (b"1 1:2 x:3", r"line 2: .*whole index.* got 'x:3'"),
        (b"1 -1:2", r"line 2: .*whole index.* got '-1:2'"),
        (b"1 1:2 3", r"line 2: .*no colon; got '3'"),
        (b"1 1:inf", r"line 2: .*finite decimal number.* got 'inf'"),
        (b"1 1:1e400", r"line 2: .*finite decimal number.* got '1e400'"),
        (b"1 1: 2", r"line 2: .*right after the colon"),
        (b"1 qid:3 1:2", r"line 2: query numbers"),
        (b"1 2147483648:2", r"line 2: the largest index"),
        (b"1 3:2 2:1", r"line 2: .*must increase.* got '2:1'"),
        (b"1 3:2 3:2", r"line 2: .*repeated"),
        (b"1 1:2\0", r"line 2: .*got '2\\x00'"),
        (b"1 1:" + b"7" * 30 + b"x" * 30, r"line 2: .* …"),
    ],
    ids=repr,
)
def test_errors_say_what_and_where(line, message):
    with pytest.raises(ValueError, match=message):
        read_libsvm(io.BytesIO(b"1 1:1\n" + line + b"\n1 1:1\n"))


def test_a_line_of_a_gigabyte_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "endless.txt"
    with open(path, "wb") as file:
        file.write(b"1 1:1\n2 1:")
        file.truncate(2**30)  # a hole in the file: nothing is stored
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 2: the line is longer than max_line"):
        read_libsvm(path, max_line=2**20)
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()
    with pytest.raises(ValueError, match="line 2: the line is longer than max_line"):
        read_libsvm(path)


@pytest.mark.parametrize("chunk", [3, 10, 2**22])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n1 1:1\n"])
def test_the_longest_line(chunk, tail):
    line = b"1 1:1 #789"
    with mock.patch.object(libsvm, "CHUNK", chunk):
        assert read_libsvm(io.BytesIO(b"1 1:1\n" + line + tail), max_line=10)[1][1] == 1.0
        with pytest.raises(ValueError, match="line 2: the line is longer than max_line"):
            read_libsvm(io.BytesIO(b"1 1:1\n" + line + tail), max_line=9)


@pytest.mark.parametrize("ending", ["txt", "gz", "bz2"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_round_trip(tmp_path, rng, kind, ending):
    X = (
        rng.standard_normal((30, 6))
        * 10.0 ** rng.integers(-300, 300, (30, 6))
        * (rng.random((30, 6)) < 0.5)
    )
    X[0] = 0.0
    y = rng.standard_normal(30)
    write_libsvm(tmp_path / f"data.{ending}", kind(X), y)
    X_read, y_read = read_libsvm(tmp_path / f"data.{ending}", n_features=6)
    np.testing.assert_array_equal(X_read.toarray(), X)
    np.testing.assert_array_equal(y_read, y)


def test_what_cannot_be_written(tmp_path):
    for X, y in [
        (np.eye(2), [1.0]),
        (np.eye(2), ["a", "b"]),
        (np.diag([1.0, np.nan]), [1, 2]),
        (np.eye(2), [1.0, np.inf]),
    ]:
        with pytest.raises(ValueError, match="LIBSVM text"):
            write_libsvm(tmp_path / "data.txt", X, y)


def test_where_indices_begin(tmp_path):
    data = b"1 1:5 2:6\n"
    assert read_libsvm(io.BytesIO(data))[0].toarray().tolist() == [[5, 6]]
    assert read_libsvm(io.BytesIO(data), zero_based=True)[0].toarray().tolist() == [[0, 5, 6]]
    assert read_libsvm(io.BytesIO(b"1 0:5\n"))[0].toarray().tolist() == [[5]]
    assert libsvm.load_libsvm(io.BytesIO(b"1 0:5\n")).zero_based
    with pytest.raises(ValueError, match="line 1: index 0"):
        read_libsvm(io.BytesIO(b"1 0:5\n"), zero_based=False)


def test_number_of_features():
    data = b"\n1 1:5\n1 3:6\n"
    assert read_libsvm(io.BytesIO(data), n_features=7)[0].shape == (2, 7)
    with pytest.raises(ValueError, match="line 3: index 3 is beyond the 2 features"):
        read_libsvm(io.BytesIO(data), n_features=2)


def test_float32():
    X, _ = read_libsvm(io.BytesIO(b"1 1:0.1\n"), dtype=np.float32)
    assert X.dtype == np.float32
    with pytest.raises(ValueError, match="line 2: 1e\\+39 does not fit float32"):
        read_libsvm(io.BytesIO(b"1 1:0.1\n1 2:1e39\n"), dtype=np.float32)


@pytest.mark.parametrize(
    "options", [{"n_features": 0}, {"zero_based": "no"}, {"max_line": 0}, {"dtype": int}]
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        read_libsvm(io.BytesIO(b""), **options)


def test_no_rows():
    X, y = read_libsvm(io.BytesIO(b"# nothing\n\n"))
    assert X.shape == (0, 0)
    assert y.size == 0


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_damaged_compression(tmp_path, ending, pack):
    packed = pack(b"1 1:1\n" * 1000)
    for damaged in (packed[: len(packed) // 2], b"1 1:1\n", packed[:20] + bytes(10) + packed[30:]):
        (tmp_path / f"data.{ending}").write_bytes(damaged)
        with pytest.raises(ValueError, match="not a whole compressed file"):
            read_libsvm(tmp_path / f"data.{ending}")
    with pytest.raises(FileNotFoundError):
        read_libsvm(tmp_path / f"missing.{ending}")


def test_real_data_as_scikit_learn_reads_them(tmp_path):
    path = data_folder() / "mushrooms.npz"
    if not path.exists():
        pytest.skip(
            f"data set mushrooms is not here ({path}); set MANYKERNELS_DATA to the folder that has "
            "it"
        )
    with np.load(path) as archive:
        parts = archive["data"], archive["indices"], archive["indptr"]
        X, y = sparse.csr_array(parts, shape=tuple(archive["shape"])), archive["y"]
    write_libsvm(tmp_path / "mushrooms", X, y)
    for (A, a), (B, b) in [
        (read_libsvm(tmp_path / "mushrooms"), load_svmlight_file(str(tmp_path / "mushrooms")))
    ]:
        np.testing.assert_array_equal(A.toarray(), B.toarray())
        np.testing.assert_array_equal(a, b)
