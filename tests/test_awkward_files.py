"""Files as shops have them: each is read, or refused with an error that says what to do.

(a) a German CSV, (b) nested JSON Lines, (c) a catalog with HTML, gaps, duplicates and prices as
text; each as a new user would read it, in Python and in the
command line.
"""

import gzip
import inspect
import json
import logging
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import matchset as ms
from matchset.cli import console
from matchset.cli.commands import GROUPS, app, find_targets
from matchset.cli.flags import Columns, Settings
from matchset.data.split import SplitOptions
from matchset.errors import DataError, InputError

WORDS = ("küche", "süßes sofa", "schuhe", "läufer", "größe 42")
KLICKS = "Zeitpunkt;Suchbegriff;Artikel;Ereignis;Gewicht\n" + "".join(
    f"{n % 28 + 1:02}.03.2026 0{n % 10}:30;{WORDS[n % 5]};10{n % 7};"
    f"{('Kauf', 'Klick', 'Warenkorb')[n % 3]};{1 + n % 2},{n % 10}\n"
    for n in range(60)
)
GERMAN = {
    "query": "Suchbegriff",
    "product": "Artikel",
    "event": "Ereignis",
    "timestamp": "Zeitpunkt",
    "count": "Gewicht",
}
FORMS = {"time_format": "%d.%m.%Y %H:%M", "decimal": ","}
FLAGS = [word for role, column in GERMAN.items() for word in (f"--{role}", column)]
DECEMBER = 'sku;Titel;Preis;seit\n1;"Sofa &amp; Sessel";1.299,00 €;31.12.2026\n'


@pytest.fixture
def klicks(tmp_path):
    path = tmp_path / "klicks.csv"
    path.write_bytes(KLICKS.encode("latin-1"))
    return path


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


# (a) German CSV: semicolons, Latin-1, decimal commas, day first, German events


def test_a_latin1_log_is_refused_with_the_encoding_to_try(klicks):
    with pytest.raises(DataError, match=r"line 2; try cp1252, which reads it as 'küche'") as e:
        ms.read_log(klicks, **GERMAN)
    assert e.value.parameter == "encoding"


def test_a_german_log_is_read_as_its_errors_say(klicks, caplog):
    given = {"encoding": "latin-1", **GERMAN}
    with pytest.raises(DataError, match=r"klicks.csv, row 1: column 'Gewicht' .* got '1,0'; ") as e:
        ms.read_log(klicks, **given)
    assert "say decimal=',' for a decimal comma" in str(e.value)
    with pytest.raises(
        DataError, match=r"row 1: column 'Zeitpunkt' .* got '01.03.2026 00:30'"
    ) as e:
        ms.read_log(klicks, decimal=",", **given)
    assert str(e.value).endswith("; say time_format='%d.%m.%Y %H:%M'")
    log = ms.read_log(klicks, **given, **FORMS)
    assert set(log.queries) == {"küche", "süsses sofa", "schuhe", "läufer", "grösse 42"}
    assert [str(day) for day in log.days] == ["2026-03-01", "2026-03-28"]
    assert log.count.sum() == pytest.approx(sum(1 + n % 2 + n % 10 / 10 for n in range(60)))
    assert log.report.is_clean
    assert not caplog.text


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_encoding_gives_the_same_log(tmp_path, klicks, encoding, suffix):
    data = KLICKS.encode(encoding)
    other = tmp_path / f"other.csv{suffix}"
    other.write_bytes(gzip.compress(data) if suffix else data)
    wanted = ms.read_log(klicks, encoding="latin-1", **GERMAN, **FORMS)
    assert ms.read_log(other, encoding=encoding, **GERMAN, **FORMS) == wanted


def test_utf16_with_a_mark_needs_no_encoding_and_without_one_says_which(tmp_path):
    marked = write(tmp_path / "marked.csv", KLICKS, "utf-16")
    assert len(ms.read_log(marked, **GERMAN, **FORMS).queries) == 5
    bare = write(tmp_path / "bare.csv", KLICKS, "utf-16-be")
    with pytest.raises(DataError, match="try utf-16-be, which reads it as 'Zeitpunkt'"):
        ms.read_log(bare, **GERMAN)


def test_a_utf8_file_is_not_garbled_by_another_encoding(tmp_path, caplog):
    path = write(tmp_path / "log.csv", KLICKS)
    log = ms.read_log(path, encoding="latin-1", **GERMAN, **FORMS)
    assert "küche" in set(log.queries)
    assert "is UTF-8, so it is not read as iso8859-1" in caplog.text


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"encoding": "klingon"}, "encoding must be a text encoding, such as utf-8, cp1252"),
        ({"encoding": "ascii"}, "must be the encoding of the file; got ascii, which fails at byte"),
        ({"decimal": ";"}, r"decimal must be the decimal separator, \. or ,; got ';'"),
        ({"encoding": "latin-1", "time_format": "%Q"}, "time_format must be a format such as"),
        (
            {"encoding": "latin-1", "decimal": ",", "time_format": "%d/%m/%Y"},
            "row 1: column 'Zeitpunkt' must have the form %d/%m/%Y; got '01.03.2026 00:30'",
        ),
    ],
)
def test_options_that_do_not_fit_are_errors(klicks, options, rule):
    with pytest.raises(ValueError, match=rule):
        ms.read_log(klicks, **GERMAN, **options)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["13/03/2026", "01/04/2026"], ["2026-03-13", "2026-04-01"]),
        (["03/13/2026 10:15 PM", "04/01/2026 1:00 AM"], ["2026-03-13", "2026-04-01"]),
        (["13.03.26", "1.4.26"], ["2026-03-13", "2026-04-01"]),
        (["13-03-2026 10:15:30", "01-04-2026 00:00:00"], ["2026-03-13", "2026-04-01"]),
        (["13/Mar/2026:23:30:00 +0100", "01/Apr/2026:00:30:00 +02"], ["2026-03-13", "2026-03-31"]),
        (["2026.03.13", "2026.04.01"], ["2026-03-13", "2026-04-01"]),
        (["13 Mar 2026", "1 Apr 2026"], ["2026-03-13", "2026-04-01"]),
        (["March 13, 2026, 10:15", "April 1, 2026, 00:00"], ["2026-03-13", "2026-04-01"]),
        (["Fri, 13 Mar 2026 00:00:00 GMT"], ["2026-03-13", "2026-03-13"]),
    ],
)  # fmt: skip
def test_times_of_other_forms_are_read_with_the_format_that_the_error_says(texts, days):
    rows = pd.DataFrame({"query": "a", "sku": [str(n) for n in range(len(texts))], "ts": texts})
    with pytest.raises(DataError, match="row 1: column 'ts' must hold a date or a time") as e:
        ms.read_log(rows)
    (said,) = re.findall("time_format='(.*?)'", str(e.value))
    assert [str(day) for day in ms.read_log(rows, time_format=said).days] == days


@pytest.mark.parametrize("text", ["01-03-26", "12:30", "yesterday"])
def test_times_of_which_none_can_be_read_are_an_error_with_an_example(text):
    rows = pd.DataFrame({"query": ["a", "b"], "sku": ["1", "2"], "time": [text, text]})
    with pytest.raises(DataError, match=f"got '{text}'; give their format with time_format="):
        ms.read_log(rows)
    assert ms.read_log(rows, timestamp=False).days is None


def test_a_warning_counts_the_rows_that_cannot_be_used_and_says_how_to_see_one(caplog):
    rows = pd.DataFrame({"query": ["a"] * 4, "sku": ["1"] * 4, "count": ["1", "x", "?", "x"]})
    assert ms.read_log(rows).report.bad_count == 3
    assert "3 with a bad count" in caplog.text
    assert "strict=True stops at the first such row" in caplog.text
    with pytest.raises(DataError, match=r"must have a row that can be used.*strict=True"):
        ms.read_log(rows[1:])


def test_a_comma_in_a_count_is_not_guessed(tmp_path):
    path = write(tmp_path / "log.csv", 'query,sku,count\nb,2,5\na,1,"1,234"\n')
    rule = "log.csv, row 2: column 'count' .* got '1,234'; say decimal=',' for a decimal comma, dec"
    with pytest.raises(DataError, match=rule):
        ms.read_log(path)
    assert ms.read_log(path, decimal=",").count.tolist() == [1.234, 5]
    assert ms.read_log(path, decimal=".").count.tolist() == [1234, 5]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, "stream"])
def test_frames_with_texts_are_read_like_files(frame):
    rows = {"query": ["a", "b"], "sku": ["1", "2"], "ts": ["31.12.2026"] * 2, "count": ["1,5", "2"]}
    source = pa.table(rows).to_reader() if frame == "stream" else frame(rows)
    if frame != "stream":
        with pytest.raises(DataError, match="the given table, row 1: column 'count'"):
            ms.read_log(source)
    log = ms.read_log(source, decimal=",", time_format="%d.%m.%Y")
    assert log.count.tolist() == [1.5, 2]
    assert str(log.days[0]) == "2026-12-31"


def test_the_command_line_reads_a_german_log_without_a_dead_end(klicks, call, tmp_path):
    code, _, error = call("describe", klicks, *FLAGS)
    assert code == 1
    assert "--encoding must name the encoding" in error
    assert "try cp1252" in error
    options = [klicks, *FLAGS, "--encoding", "cp1252", "--decimal", ","]
    code, _, error = call("describe", *options)
    assert code == 1
    assert error.strip().endswith("say --time-format '%d.%m.%Y %H:%M'")
    options += ["--time-format", "%d.%m.%Y %H:%M", "--test-days", 7]
    code, said, _ = call("describe", *options)
    assert "60 rows read, 0 dropped" in said
    assert "--events must say which events make a pair positive" in said
    assert "such as --events.Kauf 1" in said
    code, _, error = call("split", *options, "--out", tmp_path / "sides")
    assert code == 1
    assert "--events" in error
    assert not (tmp_path / "sides").exists()  # nothing is written before all is checked
    code, said, _ = call("split", *options, "--out", tmp_path / "sides", "--events.Kauf", 1)
    assert code == 0
    assert {path.name for path in (tmp_path / "sides").iterdir()} == {
        "train.parquet",
        "test.parquet",
    }


def test_the_command_line_names_flags_and_python_names_parameters(tmp_path, call):
    path = write(tmp_path / "log.csv", "query,sku,date\na,1,03/04/2026\nb,2,05/06/2026\n")
    code, _, error = call("describe", path)
    assert code == 1
    assert "--time-format %d/%m/%Y or --time-format %m/%d/%Y" in error
    assert call("describe", path, "--timestamp", "none")[0] == 0


def test_what_the_library_logs_is_said_in_flags():
    notice = InputError("3 dropped", advice="{strict=True} shows the first; {events.Kauf=1}")
    record = logging.LogRecord("matchset", logging.WARNING, "", 0, "%s", (notice,), None)
    shown = console.FlagFormatter("%(message)s").format(record)
    assert shown == "3 dropped; --strict shows the first; --events.Kauf 1"
    assert str(notice) == "3 dropped; strict=True shows the first; events={'Kauf': 1}"


def test_python_evaluates_by_the_rule_of_the_model_as_the_command_line_does(klicks):
    log = ms.read_log(klicks, encoding="latin-1", **GERMAN, **FORMS)
    config = ms.TrainConfig(events={"Kauf": 1.0}, parts=("tree",))
    matcher = ms.train(log, config=config)
    found = ms.evaluate(matcher, log, ks=[5])
    assert found.n_relevant.sum() == len(ms.positives(log, events={"Kauf": 1.0}))


# (b) JSON Lines, nested


NESTED = [
    {
        "@timestamp": f"2026-03-{n + 1:02}T10:00:00Z",
        "request": {"params": {"q": f"sofa {n % 3}", "page": 1}, "took": 1.5},
        "item": {"id": 100 + n % 4},
        "event": "product_click",
    }
    for n in range(20)
]
PATHS = {"query": "request.params.q", "product": "item.id", "timestamp": "@timestamp"}


def test_nested_fields_are_named_by_their_path(tmp_path):
    path = write(tmp_path / "log.jsonl", "\n".join(map(json.dumps, NESTED)))
    log = ms.read_log(path, **PATHS)
    assert list(log.queries) == ["sofa 0", "sofa 1", "sofa 2"]
    assert list(log.products) == ["100", "101", "102", "103"]
    assert log.events == ("product_click",)
    assert [str(day) for day in log.days] == ["2026-03-01", "2026-03-20"]
    parquet = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (FROM read_json('{path}')) TO '{parquet}'")
    assert ms.read_log(parquet, **PATHS) == log
    assert ms.read_log(pl.DataFrame(NESTED), **PATHS) == log


def test_a_path_that_is_not_there_lists_those_that_are(tmp_path):
    path = write(tmp_path / "log.jsonl", "\n".join(map(json.dumps, NESTED)))
    with pytest.raises(DataError, match=r"got 'request.q'.*'request.params.q', .*'item.id'"):
        ms.read_log(path, query="request.q", product="item.id")


def test_json_lines_with_a_byte_order_mark_are_read(tmp_path):
    path = write(tmp_path / "log.jsonl", '{"query": "süß", "sku": 1}\n', "utf-8-sig")
    assert list(ms.read_log(path).spellings) == ["süß"]


# (c) A catalog with HTML, gaps, duplicates and prices as text


def test_prices_and_german_dates_are_read_as_the_warnings_say(tmp_path, caplog):
    path = write(tmp_path / "c.csv", DECEMBER + "2;<b>Stuhl</b>;15,50 €;01.02.2026\n3;Bett;;\n")
    texts = ms.read_catalog(path, title="Titel").attributes
    assert {name: one.kind for name, one in texts.items()} == {"Preis": "text", "seit": "text"}
    rule = "is read as text: its numbers are not plain, such as '1.299,00 €'; say decimal=','"
    assert f"c.csv: column 'Preis' {rule}" in caplog.text
    rule = (
        "is read as text: its dates are not ISO, such as '01.02.2026'; say time_format='%d.%m.%Y'"
    )
    assert f"c.csv: column 'seit' {rule}" in caplog.text
    caplog.clear()
    catalog = ms.read_catalog(path, title="Titel", decimal=",", time_format="%d.%m.%Y")
    assert list(catalog.titles) == ["Sofa & Sessel", "Stuhl", "Bett"]
    prices = catalog.attributes["Preis"]
    assert prices.kind == "number"
    assert prices.values[:2].tolist() == [1299, 15.5]
    assert np.isnan(prices.values[2])
    assert catalog.attributes["seit"].kind == "date"
    assert not caplog.text


@pytest.mark.parametrize(
    ("prices", "decimal", "values"),
    [
        (["$1,299.00", "$5"], ".", [1299, 5]),
        (["1 299,00 €", "1\u00a0234\u00a0567 €"], ",", [1299, 1234567]),
        (["CHF 1'299.50", "CHF 7"], ".", [1299.5, 7]),
        (["1299,-", "5,-"], ",", [1299, 5]),
        (["-1,5", "38,25"], ",", [-1.5, 38.25]),
    ],
)
def test_usual_ways_to_write_prices_are_numbers(tmp_path, caplog, prices, decimal, values):
    rows = "".join(f"{n};t;{price}\n" for n, price in enumerate(prices))
    path = write(tmp_path / "c.csv", f"sku;title;price\n{rows}")
    assert ms.read_catalog(path).attributes["price"].kind == "text"
    assert f"decimal='{decimal}'" in caplog.text
    catalog = ms.read_catalog(path, decimal=decimal)
    assert catalog.attributes["price"].values.tolist() == values


@pytest.mark.parametrize(
    ("prices", "decimal", "said"),
    [
        (["1.299 €", "3.000 €"], None, "its numbers are not plain, such as '1.299 €'; say decimal"),
        (["5"] * 19 + ["n/a"], None, "its numbers are not plain, such as 'n/a'"),
        (["5 €", "5 $"], ",", "not all values are numbers of one currency, such as '5 $'"),
        (
            ["5 €"] * 19 + ["auf Anfrage"],
            ",",
            "not all values are numbers of one currency, such as 'auf Anfrage'",
        ),
    ],
)
def test_prices_that_stay_text_are_said(tmp_path, caplog, prices, decimal, said):
    rows = "".join(f"{n};t;{price}\n" for n, price in enumerate(prices))
    path = write(tmp_path / "c.csv", f"sku;title;price\n{rows}")
    catalog = ms.read_catalog(path, decimal=decimal)
    assert catalog.attributes["price"].kind == "text"
    assert f"column 'price' is read as text: {said}" in caplog.text


def test_the_decimal_sign_can_be_said(tmp_path):
    path = write(tmp_path / "c.csv", "sku;title;price;kg\n1;a;1.299 €;1.250\n2;b;3.000 €;2\n")
    read = [ms.read_catalog(path, decimal=sign).attributes for sign in ",."]
    assert [one["price"].values.tolist() for one in read] == [[1299, 3000], [1.299, 3]]
    assert [one["kg"].values.tolist() for one in read] == [[1250, 2], [1.25, 2]]


def test_a_catalog_without_product_ids_is_an_error(tmp_path):
    path = write(tmp_path / "c.csv", "sku,title\n,a\n,b\n")
    with pytest.raises(DataError, match="must have a row with a product id; got 2 rows"):
        ms.read_catalog(path)


def test_the_command_line_chooses_among_duplicates(tmp_path, klicks, call):
    goods = write(tmp_path / "c.csv", "sku;title\n100;Sofa\n100;Bett\n101;Stuhl\n")
    options = ["describe", klicks, *FLAGS, "--encoding", "cp1252", "--catalog", goods]
    options += ["--decimal", ",", "--time-format", "%d.%m.%Y %H:%M"]
    code, _, error = call(*options)
    assert code == 1
    assert "--duplicates must be 'first' or 'last'" in error
    code, said, _ = call(*options, "--duplicates", "last")
    assert code == 0
    assert "Catalog(2 products)" in said


def test_the_server_says_who_reads_a_log_of_other_columns(klicks, call, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "matchset.serve.serve_command.start", lambda *_, **options: given.update(options)
    )
    assert call("serve", "model", "--log", klicks)[0] == 0
    with pytest.raises(ValueError, match=r"klicks.csv: .*; matchset split has this option"):
        given["read_log"]()


def test_every_parameter_that_a_reader_names_is_a_flag():
    flags = {field.name for kind in (Columns, Settings, SplitOptions) for field in fields(kind)}
    commands = [app[name].default_command for name in find_targets()]
    flags |= {
        name for command in commands if command for name in inspect.signature(command).parameters
    }
    named = set()
    for path in (Path(ms.__file__).parent / "data").glob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r'parameter="(\w+)"', text))
        named |= set(re.findall(r"\{(\w+)=[^}]*\}", text))
    only_python = {"actions", "attributes", "source"}  # of read_ubi, and of what cannot go wrong
    assert named >= {"encoding", "time_format", "decimal", "strict", "duplicates"}
    assert named - only_python <= flags | {"title", "description", "text"}  # --catalog-title


def test_help_is_grouped_by_what_one_wants(call):
    _, said, _ = call("--help")
    places = [said.index(f"─ {title} ─") for title in GROUPS if GROUPS[title]]
    assert places == sorted(places)
    assert {name for names in GROUPS.values() for name in names} == set(find_targets())
    for name in find_targets():
        assert f"│ {name} " in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_flags(call, shell):
    code, script, _ = call("completion", shell)
    assert code == 0
    assert all(name in script for name in find_targets())
    assert "time-format" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_nothing_is_written_before_the_arguments_are_checked(call, tmp_path):
    code, _, error = call("simulate", "--products", 0, "--out", tmp_path / "shop")
    assert code == 1
    assert "products must be at least 100; got 0" in error
    assert not (tmp_path / "shop").exists()
