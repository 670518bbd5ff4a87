"""Failures inside the server stay inside, and are logged."""

import json
import logging
import subprocess
import sys

import pytest
from serving import ask, working

from matchset.serve.access_log import LineFormatter, write_line
from matchset.serve.auth import make_hosts, read_keys, warn_if_readable
from matchset.serve.options import ServeConfig
from matchset.serve.reloading import reload
from matchset.serve.request_errors import RequestError


@pytest.fixture
def worker(served_shop):
    with working(served_shop / "model") as made:
        yield made


def test_a_failure_inside_is_reported_without_its_traceback(worker, monkeypatch, caplog):
    query = "a secret query"

    def fail(*_):
        raise ZeroDivisionError(query) from OSError(28, "No space left on device")

    monkeypatch.setattr("matchset.serve.retrieval.answer", fail)
    with caplog.at_level(logging.ERROR):
        status, answer = ask(worker, "/v1/match", b"q=sofa")
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert "secret" not in json.dumps(answer)
    (record,) = caplog.records
    assert record.fields["request_id"] == answer["request_id"]
    logged = record.fields["error"]
    assert "in fail" in logged
    assert "ZeroDivisionError\n" in logged
    assert "No space left on device" in logged
    assert "secret" not in LineFormatter(pretty=False).format(record)  # it may be a query
    worker.config = ServeConfig(log_queries=True)
    with caplog.at_level(logging.ERROR):
        ask(worker, "/v1/match", b"q=sofa")
    assert "ZeroDivisionError: a secret query" in caplog.records[-1].fields["error"]
    monkeypatch.undo()
    assert ask(worker, "/v1/match", b"q=sofa")[0] == 200


def test_queries_are_logged_only_on_request(worker, monkeypatch):
    noted = []
    monkeypatch.setattr(worker.access_log, "add", noted.append)
    ask(worker, "/v1/match", b"q=sofa")
    worker.config = ServeConfig(log_queries=True)
    ask(worker, "/v1/match", b"q=sofa")
    assert ["queries" in fields for fields in noted] == [False, True]
    assert noted[1]["queries"] == ("sofa",)


def test_n6_a_reload_whose_lock_cannot_be_opened_is_refused(worker):
    (worker.run.path / "reload.lock").unlink()
    (worker.run.path / "reload.lock").mkdir()
    with pytest.raises(RequestError, match="directory") as raised:
        reload(worker.run, worker.sources, worker.config, worker.metrics)
    assert (raised.value.code, raised.value.status) == ("model_rejected", 409)


def test_lines_are_json_or_for_people():
    fields = {"route": "/v1/match", "note": "two\nlines"}
    line = json.loads(write_line("info", "request", fields, pretty=False))
    assert {**fields, "level": "info", "event": "request"}.items() <= line.items()
    pretty = write_line("info", "request", fields, pretty=True).decode()
    assert pretty.endswith("info    request route=/v1/match note=two lines\n")
    record = logging.LogRecord("a", logging.WARNING, "", 0, "odd %s", ("thing",), None)
    assert json.loads(LineFormatter(pretty=False).format(record))["event"] == "odd thing"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "at least one API key; got none"),
        ("# only a comment\n", "at least one API key; got none"),
        ("short\n", "16 or more"),
        ("with spaces in it, long enough\n", "without spaces"),
        ("with-a\ttab-in-it,-long-enough\n", "without spaces"),
        ("ümläüte-sind-kein-ascii\n", "ASCII"),
    ],
)
def test_a_bad_key_file_is_an_error(tmp_path, text, fault):
    file = tmp_path / "keys"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        read_keys(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_every_key_is_valid_and_none_is_ever_shown(tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text("first-key-of-several\nsecond-key-of-several\n")
    keys = read_keys(file)
    for key in (b"first-key-of-several", b"second-key-of-several"):
        assert keys.allow(b"Bearer " + key)
    assert not keys.allow(b"Bearer third-key-of-several")
    assert "several" not in repr(keys)
    file.chmod(0o644)
    warn_if_readable(file)
    assert "can be read by others" in caplog.text


def test_names_of_the_server_are_whole_names():
    hosts = make_hosts("", ("Shop.Example",))
    for host in (b"shop.example", b"SHOP.EXAMPLE:8080", b"shop.example.", b"192.168.1.5:80"):
        hosts.check(host)
    for host in (
        b"",
        b".",
        b"xshop.example",
        b"shop.example.evil",
        b"shop.example:80:80",
        b"\xff",
        None,
    ):
        with pytest.raises(RequestError, match="Host must be"):
            hosts.check(host)


def test_without_its_packages_the_server_says_how_to_install_them(served_shop):
    program = (
        "import sys; sys.modules['granian'] = None\n"
        "import matchset\n"
        "from matchset.cli import main\n"
        f"sys.argv = ['matchset', 'serve', {str(served_shop / 'model')!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'starlette>=" in done.stderr
    assert "Traceback" not in done.stderr
