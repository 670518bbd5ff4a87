"""A click that does not know its query gets it from the session's last search before it."""

import re
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from logs import DAY_NUMBER, rows_of

import matchset as ms
from matchset.errors import DataError
from matchset.online.session_rows import read_session_rows

HEADER = ["query", "product_id", "event", "timestamp", "user_id", "session_id"]
T = "2026-01-02T10:"
ROWS = [
    ("Red Shoes", None, "search", f"{T}00:00Z", "u1", "1"),
    (None, "p1", "click", f"{T}00:05Z", "u1", "1"),
    (None, "p1", "click", f"{T}29:59.5Z", "u1", "1"),  # half a second before the half hour
    (None, "p9", "click", f"{T}30:01Z", "u1", "1"),  # too late
    ("hat", None, "search", f"{T}01:00Z", "u2", "1"),  # another user may count alike
    (None, "p2", "purchase", f"{T}01:00Z", "u2", "1"),  # in the same moment
    (None, "p8", "click", f"{T}00:30Z", "u2", "1"),  # before the search
    (None, "p7", "click", f"{T}02:00Z", "u3", None),  # of no session
    ("boots", "p3", "click", f"{T}03:00Z", "u1", "1"),  # knows its query
]
JOINED = {
    ("red shoes", "p1", "click", DAY_NUMBER): 2.0,
    ("hat", "p2", "purchase", DAY_NUMBER): 1.0,
    ("boots", "p3", "click", DAY_NUMBER): 1.0,
}


def sources(tmp_path, rows=ROWS):
    frame = pl.DataFrame(rows, schema=HEADER, orient="row")
    frame.write_csv(tmp_path / "log.csv")
    frame[:4].write_parquet(tmp_path / "a.parquet")  # a session may go on in another file
    frame[4:].write_parquet(tmp_path / "b.parquet")
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    stream = pa.table(frame.to_arrow()).to_reader()
    return [tmp_path / "log.csv", parts, frame, frame.to_pandas(), stream, frame[::-1]]


def test_a_click_belongs_to_the_last_search_of_its_session(tmp_path):
    for source in sources(tmp_path):
        log = ms.read_log(source)
        assert rows_of(log) == JOINED
        report = log.report
        assert (report.rows, report.searches, report.joined, report.without_query) == (9, 2, 3, 3)
        assert str(report).endswith(
            "3 dropped (3 without a query), 3 joined to the 2 searches of their sessions"
        )


def test_sessions_are_named_or_left_out():
    frame = pl.DataFrame(ROWS, schema=HEADER, orient="row")
    assert rows_of(ms.read_log(frame.rename({"session_id": "sid"}), session="sid")) == JOINED
    for options in ({"session": False}, {"timestamp": False}):
        report = ms.read_log(frame, **options).report
        assert (report.searches, report.without_product) == (0, 2)


def test_searches_and_clicks_may_be_tables_of_their_own(tmp_path):
    frame = pl.DataFrame(ROWS, schema=HEADER, orient="row")
    is_search = pl.col("product_id").is_null()
    clicks = frame.filter(~is_search & pl.col("query").is_null()).drop("query")
    for name in ("query", "wanted"):
        searches = frame.filter(is_search).drop("product_id", "event").rename({"query": name})
        searches.write_csv(tmp_path / "searches.csv")
        clicks.write_parquet(tmp_path / "clicks.parquet")
        files = [tmp_path / "clicks.parquet", tmp_path / "searches.csv"]
        log = ms.read_log(files, query=name)
        assert rows_of(log) == {pair: n for pair, n in JOINED.items() if "boots" not in pair}
        assert (log.report.searches, log.report.joined) == (2, 3)
    clicks.drop("session_id").write_parquet(tmp_path / "clicks.parquet")
    with pytest.raises(DataError, match=r"clicks.parquet: query= must name a column"):
        ms.read_log(files)


def test_of_searches_in_one_moment_the_text_decides_in_any_order():
    rows = [(q, None, "search", f"{T}00:00Z", "u", "1") for q in ("b", "a", "c")]
    for order in (rows, rows[::-1]):
        rows = [(None, "p", "click", f"{T}00:01Z", "u", "1"), *order]
        log = ms.read_log(pl.DataFrame(rows, schema=HEADER, orient="row"))
        assert list(log.queries) == ["c"]


def test_strict_wants_a_search_before_every_click(tmp_path):
    good = [ROWS[i] for i in (0, 1, 2, 4, 5, 8)]
    for source in sources(tmp_path, good):
        assert ms.read_log(source, strict=True).report.is_clean
    for source in sources(tmp_path)[:1]:
        with pytest.raises(DataError, match=r"row 8: column 'query' must hold a query"):
            ms.read_log(source, strict=True)
    frame = pl.DataFrame(ROWS[:4] + ROWS[8:], schema=HEADER, orient="row")
    with pytest.raises(DataError, match=r"every click must follow a search; got 5 rows"):
        ms.read_log(frame, strict=True)


def test_rows_of_customers_have_the_same_queries(tmp_path):
    for source in sources(tmp_path):
        rows = read_session_rows(source)
        names = zip(rows.query, rows.product, strict=True)
        pairs = {(rows.queries[q], rows.products[p]) for q, p in names}
        assert pairs == {("red shoes", "p1"), ("hat", "p2"), ("boots", "p3")}
        assert rows.n_units == 2


def run_guide(tool, folder, monkeypatch):
    """Run the statement of the guide that reads the files of a tool; return the log it makes."""
    monkeypatch.chdir(folder)
    guide = Path(__file__).parents[1] / "docs" / "your-log.md"
    statements = re.findall(r"```sql\n(.*?)```", guide.read_text(), re.DOTALL)
    duckdb.sql(next(statement for statement in statements if f"'{tool}/" in statement))
    return ms.read_log("log.parquet")


def ga4(second, name, user, *, term=None, items=()):
    """A row of the BigQuery export of Google Analytics 4."""
    values = {"ga_session_id": {"int_value": 1767348000, "string_value": None}}
    if term is not None:
        values["search_term"] = {"int_value": None, "string_value": term}
    return {
        "event_date": "20260102",
        "event_timestamp": 1767348000_000000 + second * 1_000_000,
        "event_name": name,
        "event_params": [{"key": key, "value": value} for key, value in values.items()],
        "user_pseudo_id": user,
        "items": [{"item_id": item, "item_name": f"Product {item}"} for item in items],
    }


def test_the_guide_reads_the_export_of_google_analytics_4(tmp_path, monkeypatch):
    rows = [
        ga4(0, "session_start", "a"),
        ga4(1, "view_search_results", "a", term="Red Shoes", items=["9"]),
        ga4(2, "view_search_results", "b", term="hat"),  # another user, the same session number
        ga4(3, "select_item", "a", items=["7"]),
        ga4(9, "purchase", "a", items=["7", "8"]),
        ga4(9, "purchase", "c", items=["7"]),  # searched for nothing
    ]
    (tmp_path / "ga4").mkdir()
    pl.DataFrame(rows).write_parquet(tmp_path / "ga4" / "events_20260102.parquet")
    log = run_guide("ga4", tmp_path, monkeypatch)
    assert rows_of(log) == {
        ("red shoes", "7", "select_item", DAY_NUMBER): 1,
        ("red shoes", "7", "purchase", DAY_NUMBER): 1,
        ("red shoes", "8", "purchase", DAY_NUMBER): 1,
    }
    assert (log.report.searches, log.report.joined, log.report.without_query) == (2, 3, 1)
    assert ms.positives(log).rule.weights == {"purchase": 1.0, "select_item": 0.2}


def test_the_guide_reads_the_tables_of_matomo(tmp_path, monkeypatch):
    tables = {
        "log_action": [
            "idaction,name,type", "1,shop.example/search,1", "2,red shoes,8", "3,sku-7,5",
            "4,sku-8,5",
        ],
        "log_link_visit_action": [
            "idvisit,server_time,idaction_url,idaction_name,idaction_product_sku",
            "5,2026-01-02 10:00:00,1,2,", "5,2026-01-02 10:01:00,1,,3", "5,2026-01-02 10:01:00,1,,",
            "6,2026-01-02 10:01:00,1,,4",
        ],
        "log_conversion_item": [
            "idvisit,server_time,idorder,idaction_sku,deleted", "5,2026-01-02 10:05:00,A1,3,0",
            "5,2026-01-02 10:05:00,0,4,0", "5,2026-01-02 10:05:00,A1,4,1",
        ],
    }  # fmt: skip
    (tmp_path / "matomo").mkdir()
    for name, lines in tables.items():
        (tmp_path / "matomo" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    log = run_guide("matomo", tmp_path, monkeypatch)
    assert rows_of(log) == {
        ("red shoes", "sku-7", "click", DAY_NUMBER): 1,
        ("red shoes", "sku-7", "purchase", DAY_NUMBER): 1,
        ("red shoes", "sku-8", "cart", DAY_NUMBER): 1,
    }
    assert (log.report.searches, log.report.joined, log.report.without_query) == (1, 3, 1)
