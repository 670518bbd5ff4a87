"""Rows of a log with the customers who made them."""

import numpy as np
import polars as pl
import pytest

from matchset.data.arrow import NO_DAY
from matchset.errors import DataError
from matchset.online.searches import searches_of
from matchset.online.session_rows import NO_SECOND, has_visitors, read_session_rows

HEADER = "user_id,session_id,query,product_id,event,timestamp\n"
ROWS = [
    "u1,s1,Red Shoes,1,impression,2026-01-02T10:00:00Z",
    "u1,s1,red  shoes,2,click,2026-01-02T10:00:05Z",
    "u1,s1,boots,3,purchase,2026-01-02T10:01:00Z",
    "u1,s2,boots,3,click,2026-01-02T18:00:00Z",
    "u2,s3,boots,3,click,2026-01-02T18:00:00Z",
]


def write(path, rows=ROWS, header=HEADER):
    path.write_text(header + "\n".join(rows) + "\n")
    return str(path)


def test_rows_keep_their_user_session_and_second(tmp_path):
    rows = read_session_rows(write(tmp_path / "log.csv"))
    order = np.lexsort([rows.product, rows.second])
    assert rows.unit_kind == "user"
    assert rows.n_units == 2
    assert len(np.unique(rows.visit)) == 3
    assert np.diff(rows.second[order]).tolist() == [5, 55, 60 * (8 * 60 - 1), 0]
    assert rows.day[0] == np.datetime64("2026-01-02", "D").astype(int)
    assert sorted(rows.queries) == ["boots", "red shoes"]
    assert int(rows.is_kind("purchase").sum()) == 1


def test_a_search_is_a_query_in_a_visit(tmp_path):
    rows = read_session_rows(write(tmp_path / "log.csv"))
    search, first = rows.searches()
    assert len(first) == 4  # red shoes, and boots in three sessions
    for number, row in enumerate(first):
        assert search[row] == number


def test_without_sessions_a_visit_is_a_day_of_a_user(tmp_path):
    later = "u1,s9,boots,3,click,2026-01-03T00:00:00Z"
    path = write(tmp_path / "log.csv", [*ROWS, later])
    rows = read_session_rows(path, session=False)
    assert len(np.unique(rows.visit)) == 3  # two days of u1, one of u2
    assert rows.n_units == 2


def test_without_users_a_session_is_a_unit(tmp_path):
    rows = read_session_rows(write(tmp_path / "log.csv"), user=False)
    assert rows.unit_kind == "session"
    assert rows.n_units == 3


def test_v3_sessions_of_two_users_may_have_the_same_number(tmp_path):
    rows = [f"u{i},{i % 2},q{i % 3},1,click,2026-01-02T10:00:00Z" for i in range(10)]
    alike = read_session_rows(write(tmp_path / "log.csv", rows))
    assert len(alike.searches()[1]) == len(np.unique(alike.visit)) == alike.n_units == 10


def test_rows_of_nobody_are_left_out(tmp_path, caplog):
    rows = read_session_rows(write(tmp_path / "log.csv", [*ROWS, ",,boots,3,click,2026-01-02"]))
    assert len(rows) == 5
    assert "1 of 6 rows have neither a user nor a session and are left out" in caplog.text


def test_a_row_without_a_time_has_no_day(tmp_path):
    rows = read_session_rows(write(tmp_path / "log.csv", [*ROWS, "u1,s1,boots,4,click,soon"]))
    assert (rows.second == NO_SECOND).sum() == (rows.day == NO_DAY).sum() == 1
    found = searches_of(rows)
    assert found.n_days == 1  # and not all days since 1970
    assert found.is_dated.all()  # another row of that search has a time
    alone = read_session_rows(write(tmp_path / "a.csv", [*ROWS, "u3,s9,hats,4,click,soon"]))
    found = searches_of(alone)
    assert (found.n_days, int(found.is_dated.sum()), len(found)) == (1, 4, 5)


def test_times_in_other_forms_give_seconds_too(tmp_path):
    dotted = [row.replace("2026-01-02T", "13.01.2026 ").replace("Z", "") for row in ROWS]
    rows = read_session_rows(write(tmp_path / "log.csv", dotted), time_format="%d.%m.%Y %H:%M:%S")
    assert np.ptp(rows.second) == 8 * 3600
    frame = pl.DataFrame(
        {"sid": ["a"], "q": ["hat"], "sku": ["1"], "ts": [1_767_348_000_123]}
    )  # milliseconds
    assert read_session_rows(frame, session="sid").second.tolist() == [1_767_348_000]


def test_a_log_of_no_customers_is_refused(tmp_path):
    path = write(tmp_path / "log.csv", ["hat,1"], "query,product_id\n")
    with pytest.raises(DataError, match="users or sessions to tell searches apart"):
        read_session_rows(path)
    assert not has_visitors(path)
    assert has_visitors(write(tmp_path / "other.csv"))
