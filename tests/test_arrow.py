"""Columns come from any library's Arrow stream, and go back to it."""

import _thread
import ctypes
import signal
import threading

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchset import _native
from matchset.data.arrow import ExportColumn, export_columns, read_columns
from matchset.strings import Strings

texts = st.lists(st.none() | st.text(max_size=20), max_size=40)
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def batches_of(column, size=7):
    """A table in batches that start inside their buffers, as slices do."""
    slices = [column.slice(start, size) for start in range(0, len(column), size)]
    return pa.table({"x": pa.chunked_array(slices, column.type)})


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@given(texts)
def test_texts_of_every_layout_read_back(kind, values):
    column = read_columns(batches_of(pa.array(values, kind)))["x"]
    assert list(column.texts) == [value or "" for value in values]
    nulls = [False] * len(values) if column.is_null is None else column.is_null
    assert list(nulls) == [value is None for value in values]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@given(texts)
def test_coded_texts_are_places_in_distinct_texts(kind, values):
    column = read_columns(batches_of(pa.array(values, kind)), coded=["x"])["x"]
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    assert list(column.texts) == distinct
    assert [None if c < 0 else distinct[c] for c in column.values] == values


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.int8(), np.int64), (pa.uint8(), np.int64), (pa.int16(), np.int64),
        (pa.uint16(), np.int64), (pa.int32(), np.int32), (pa.uint32(), np.int64),
        (pa.int64(), np.int64), (pa.uint64(), np.int64), (pa.float32(), np.float64),
        (pa.float64(), np.float64), (pa.bool_(), np.uint8), (pa.date32(), np.int32),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("values", [[1, None, 0, 1], [0, 1, 1, 0, 1, 0, 0, 1, 1, 1], []])
def test_numbers_booleans_and_dates_read_back(kind, dtype, values):
    typed = [v if v is None or kind != pa.bool_() else bool(v) for v in values]
    column = read_columns(batches_of(pa.array(typed, kind), size=3))["x"]
    assert column.values.dtype == dtype
    assert [int(v) for v in column.values] == [v or 0 for v in values]


def test_duckdb_polars_and_pyarrow_are_read_alike():
    rows = {"q": ["a", "b", None], "n": [1.5, 2.5, None]}
    sources = [
        pl.DataFrame(rows),
        pa.table(rows),
        duckdb.sql("FROM (VALUES ('a', 1.5::DOUBLE), ('b', 2.5), (NULL, NULL)) t(q, n)"),
    ]
    for source in sources:
        columns = read_columns(source)
        assert list(columns["q"].texts) == ["a", "b", ""]
        assert list(columns["n"].values) == [1.5, 2.5, 0]
        assert list(columns["n"].is_null) == [False, False, True]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([b"x"]), r'column "x" has the Arrow format "z", which is not supported'),
        (pa.array([[1]]), r'column "x" has the Arrow format "\+l"'),
        (pa.array(["a"]).dictionary_encode(), r'column "x" is dictionary-encoded'),
        (pa.array([2**63], pa.uint64()), r'column "x" has a number beyond 64-bit'),
    ],
)
def test_a_type_that_is_not_supported_is_named(column, message):
    with pytest.raises(RuntimeError, match=message):
        read_columns(pa.table({"x": column}))


def test_a_failing_stream_gives_its_own_message():
    def batches():
        yield pa.record_batch({"x": [1]})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    with pytest.raises(RuntimeError, match="the disk is gone"):
        read_columns(reader)


def test_ctrl_c_ends_the_reading_of_a_stream_that_computes_for_minutes():
    rows = duckdb.sql("SELECT left(md5(md5(md5(i::VARCHAR))), 1) AS x FROM range(30_000_000) t(i)")
    timer = threading.Timer(0.3, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist ignores it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            read_columns(rows, coded=["x"])
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()


def test_a_stream_is_read_once():
    capsule = pa.table({"x": [1]}).__arrow_c_stream__()
    _native.SharedArrowStream(capsule)
    for read in (
        lambda: _native.read_arrow_stream(capsule, []),
        lambda: _native.SharedArrowStream(capsule),
    ):
        with pytest.raises(RuntimeError, match="already read"):
            read()


@pytest.mark.parametrize("value", [None, 3, "x", object()])
def test_what_is_not_a_capsule_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        _native.read_arrow_stream(value, [])


def test_a_capsule_of_another_kind_is_refused():
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    with pytest.raises(ValueError, match="incorrect name"):
        _native.read_arrow_stream(new(1, b"something", None), [])


def test_a_shared_stream_opens_often_and_gives_every_batch_once():
    table = pa.table({"x": pa.chunked_array([[1, 2], [3]])})
    shared = _native.SharedArrowStream(table.to_reader().__arrow_c_stream__())
    del table
    first, second, unused = pa.table(shared), pa.table(shared), shared.__arrow_c_stream__()
    assert first["x"].to_pylist() == [1, 2, 3]
    assert second.schema == first.schema
    assert second.num_rows == 0
    del shared, unused


def test_the_names_of_a_shared_stream_are_those_of_its_schema():
    table = pa.table([[1], [2], [3]], names=["x", "x", ""])
    shared = _native.SharedArrowStream(table.to_reader().__arrow_c_stream__())
    assert shared.column_names() == shared.column_names() == ["x", "x", ""]
    assert len(read_columns(shared)["x"].values) == 1  # naming reads no rows


def exported(**columns):
    class Table:
        def __arrow_c_stream__(self, requested_schema=None):
            return export_columns([ExportColumn(name, **c) for name, c in columns.items()], 3)

    return Table()


def test_what_is_exported_is_valid_arrow_without_a_copy():
    values = np.array([1.5, np.nan, 3.0])
    table = pa.table(
        exported(
            text={"texts": Strings.of(["a", "", "é"])},
            code={
                "values": np.array([1, 0, -1], np.int32),
                "texts": Strings.of(["x", "y"]),
                "is_null": np.array([False, False, True]),
            },
            number={"values": values, "is_null": np.isnan(values)},
            flag={"values": np.array([True, False, True])},
            day={"values": np.array([0, 1, 2], np.int32), "is_date": True},
        )
    )
    table.validate(full=True)
    assert table["text"].to_pylist() == ["a", "", "é"]
    assert table["code"].to_pylist() == ["y", "x", None]
    assert table["number"].to_pylist() == [1.5, None, 3.0]
    assert table["flag"].to_pylist() == [True, False, True]
    assert [day.isoformat() for day in table["day"].to_pylist()] == [
        "1970-01-01",
        "1970-01-02",
        "1970-01-03",
    ]
    assert table["number"].chunk(0).buffers()[1].address == values.ctypes.data


def test_exported_columns_keep_their_arrays_alive():
    table = pa.table(exported(x={"values": np.arange(3, dtype=np.int32)}))
    child = table["x"]
    del table
    assert child.to_pylist() == [0, 1, 2]


def test_buffers_too_short_for_their_column_are_refused():
    with pytest.raises(ValueError, match="values must cover every row"):
        _native.export_arrow_table([("x", "i", None, np.zeros(2, np.int32), None)], 3)
    with pytest.raises(ValueError, match="valid bits must cover every row"):
        _native.export_arrow_table(
            [("x", "C", np.zeros(1, np.uint8), np.zeros(9, np.uint8), None)], 9
        )
    with pytest.raises(ValueError, match="texts must cover every row"):
        _native.export_arrow_table([("x", "U", None, None, None)], 1)
    with pytest.raises(ValueError, match="must be one of g, f, i, tdD, C, b, U; got z"):
        _native.export_arrow_table([("x", "z", None, np.zeros(1), None)], 1)


class Array(ctypes.Structure):
    """The ArrowArray of the C data interface."""


Array._fields_ = [
    (name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")
] + [
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Array))


class Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.c_void_p),
        ("get_next", GET_NEXT),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


def set_offset(array, index, value):
    ctypes.cast(array.buffers[1], ctypes.POINTER(ctypes.c_int32))[index] = value


DAMAGES = {
    "no children": lambda root, x: setattr(root, "n_children", 0),
    "children at nowhere": lambda root, x: setattr(root, "children", None),
    "negative rows": lambda root, x: setattr(root, "length", -1),
    "negative offset": lambda root, x: setattr(root, "offset", -5),
    "more rows than a column has": lambda root, x: setattr(root, "length", 10**9),
    "column of negative length": lambda root, x: setattr(x, "length", -1),
    "column of negative offset": lambda root, x: setattr(x, "offset", -1),
    "too few buffers": lambda root, x: setattr(x, "n_buffers", 1),
    "buffers at nowhere": lambda root, x: setattr(x, "buffers", None),
    "no offsets": lambda root, x: x.buffers.__setitem__(1, None),
    "no data": lambda root, x: x.buffers.__setitem__(2, None),
    "negative text offset": lambda root, x: set_offset(x, 0, -7),
    "descending text offsets": lambda root, x: set_offset(x, 1, 99),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_batch_is_an_error_and_never_a_crash(damage):
    # Buffers of our own, since they are written to.
    offsets, data = np.array([0, 3, 6], np.int32), np.frombuffer(b"redhat", np.uint8).copy()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    column = pa.Array.from_buffers(pa.string(), 2, buffers)
    capsule = pa.table({"x": column}).to_reader().__arrow_c_stream__()
    point = ctypes.pythonapi.PyCapsule_GetPointer
    point.restype, point.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = Stream.from_address(point(capsule, b"arrow_array_stream"))
    original = GET_NEXT(ctypes.cast(stream.get_next, ctypes.c_void_p).value)
    released = []

    def get_next(self, array):
        code = original(self, array)
        root = array.contents
        if root.release:
            column = root.children[0].contents
            undamaged = [(part, Array.from_buffer_copy(part)) for part in (root, column)]

            def release(array):
                for part, saved in undamaged:  # the producer must find what it made
                    ctypes.pointer(part)[0] = saved
                RELEASE(undamaged[0][1].release)(array)
                released.append(array)

            callbacks.append(RELEASE(release))
            root.release = ctypes.cast(callbacks[-1], ctypes.c_void_p)
            DAMAGES[damage](root, column)
        return code

    callbacks = [GET_NEXT(get_next)]
    stream.get_next = callbacks[0]
    with pytest.raises(RuntimeError, match=r"column \"x\" has|Arrow stream"):
        _native.read_arrow_stream(capsule, [])
    assert len(released) == 1
