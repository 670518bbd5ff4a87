"""The command line, as a person calls it."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields

import pytest
from command_line import COMMAND, run

import matchset as ms
from matchset.baselines import BM25
from matchset.cli.commands import app, find_targets
from matchset.cli.flags import Settings, make_config
from matchset.config import LearnConfig
from matchset.matchers.base import find_near


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    said = run("simulate", "--products", 150, "--out", folder)
    assert "products.parquet" in said
    return folder


@pytest.fixture(scope="module")
def model(shop):
    out, settings = shop / "model", shop / "settings.toml"
    settings.write_text("[learn]\nbranching = 8\n")
    said = run(
        "train", shop / "log.parquet", "--catalog", shop / "products.parquet", "-o", out,
        "--parts", "tree", "--config", settings, "--events.purchase", 1,
    )  # fmt: skip
    assert "weights in" in said
    return out


def list_files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_training_with_a_work_folder_is_not_done_twice(shop, tmp_path):
    arguments = [
        "train", shop / "log.parquet", "--catalog", shop / "products.parquet", "-o",
        tmp_path / "model", "--work", tmp_path / "work", "--parts", "tree", "--overwrite",
    ]  # fmt: skip
    assert "weights in" in run(*arguments)
    times = {path: path.stat().st_mtime_ns for path in list_files(tmp_path / "work")}
    assert "weights in" in run(*arguments, "--engine", "processes", "--threads", 1)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert "weights in" in run(*arguments, "--seed", 9)
    assert len(list((tmp_path / "work").iterdir())) == 2
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_log_is_described(shop):
    said = run("describe", shop / "log.parquet", "--catalog", shop / "products.parquet")
    for part in ("rows ", "impression", "Recall@100 is at most", "Catalog"):
        assert part in said


def test_other_columns_can_be_named(tmp_path):
    file = tmp_path / "log.tsv"
    rows = ['"red" shoe\t007\t2', "blue shoe\t7\t1", "hat\t8\t1", "cap\t9\t1", "sock\t10\t1"]
    file.write_text("\n".join(["suche\tware\tn", *rows]) + "\n")
    said = run("describe", file, "--query", "suche", "--product", "ware", "--count", "n")
    assert "5 rows read, 0 dropped" in said


def test_columns_of_the_catalog_can_be_named_too(tmp_path, shop):
    goods = ms.read_catalog(str(shop / "products.parquet"))
    file = tmp_path / "artikel.csv"
    rows = [f'{product},"{title}"' for product, title in zip(goods.ids, goods.titles, strict=True)]
    file.write_text("\n".join(["artikelnummer,bezeichnung", *rows]) + "\n")
    run(
        "train", shop / "log.parquet", "-o", tmp_path / "model", "--catalog", file,
        "--catalog-product", "artikelnummer", "--catalog-title", "bezeichnung",
    )  # fmt: skip
    assert ms.load(tmp_path / "model").products.titles is not None


def test_a_bad_target_is_an_error_before_the_log_is_read(model, tmp_path):
    assert "already exists" in run("train", tmp_path / "no.log", "-o", model, ok=False)


@pytest.mark.parametrize("inside", [".", "steps"])
def test_a_work_folder_in_the_place_of_the_model_is_refused_at_once(call, tmp_path, inside):
    out = tmp_path / "model"
    code, _, said = call("train", tmp_path / "no.log", "-o", out, "--work", out / inside)
    assert code == 1
    assert "--work must lie outside the model's file" in said
    assert not out.exists()


def test_a_server_that_is_stopped_before_it_is_ready_says_nothing_of_saving(call, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("matchset.serve.serve_command.start", stop)
    assert call("serve", "model")[2] == "matchset: stopped\n"


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "matchset", "--version"], capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["split", "evaluate", "sweep", "serve"])
def test_a_command_without_a_catalog_has_no_flags_for_one(command):
    assert "--catalog" not in run(command, "--help")


def test_settings_come_from_flags_that_come_from_the_configuration(model):
    config = ms.load(model).config
    assert config.learn.branching == 8
    assert config.events == {"purchase": 1.0}
    settings = {f.name for kind in (ms.TrainConfig, LearnConfig) for f in fields(kind)}
    assert {field.name for field in fields(Settings)} < settings


@pytest.mark.parametrize(("command", "most"), [("train", 30), ("plan", 30), ("evaluate", 30)])
def test_a_command_has_flags_for_what_users_change_and_a_file_for_the_rest(command, most):
    said = run(command, "--help")
    assert len(set(re.findall(r"^[^-]{0,9}(--[a-z-]+)", said, re.MULTILINE))) <= most


def test_a_flag_beats_the_file_and_the_file_beats_the_default(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("titles = 'none'\n[learn]\nbranching = 64\nseed = 3\n")
    config = make_config(file, Settings(seed=16))
    assert (config.learn.branching, config.learn.seed, config.titles) == (64, 16, "none")
    assert config.learn.max_leaf_size == ms.TrainConfig().learn.max_leaf_size


def test_every_setting_says_what_it_does():
    said = run("train", "--help")
    for part in ("Random seed. [default: 0]", "[default: tree towers lexical neighbors]"):
        assert part in said


def test_queries_are_matched_in_every_form(model):
    assert "sofa" in run("match", model, "sofa", "-k", 3)
    said = run("match", model, "--form", "jsonl", "-k", 2, stdin="sofa\nmug\n")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [(row["query"], row["rank"]) for row in rows] == [
        ("sofa", 1), ("sofa", 2), ("mug", 1), ("mug", 2)
    ]  # fmt: skip
    lines = run("match", model, "-k", 1, "--where", "price < 30", stdin="sofa\n").splitlines()
    assert [len(line.split("\t")) for line in lines] == [5]


def test_queries_without_products_are_told(call, model, tmp_path):
    queries = tmp_path / "queries.txt"
    queries.write_text("sofa\nqqqqqq\n")
    options = "match", model, "--file", queries, "-k", 1
    code, said, error = call(*options, "--form", "tsv")
    assert (code, len(said.splitlines())) == (0, 1)
    assert error == "queries without products, which have no line: 1\n"
    code, said, error = call(*options, "--form", "jsonl")
    assert (code, error) == (0, "")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["query"] for row in rows] == ["sofa", "qqqqqq"]
    assert rows[1]["product_id"] is None
    (tmp_path / "run.jsonl").write_text(said)
    run_file = ms.baselines.read_run(tmp_path / "run.jsonl")  # it is a run all the same
    assert len(run_file.match("sofa")) == 1


def test_match_and_evaluate_print_the_same_forms(model, shop):
    rows = json.loads(run("match", model, "sofa", "mug", "--form", "json", "-k", 2))
    assert [(row["query"], row["rank"]) for row in rows[:2]] == [("sofa", 1), ("sofa", 2)]
    scores = {}
    for form in ("table", "tsv", "jsonl", "json"):
        assert run("match", model, "sofa", "--form", form)
        scores[form] = run("evaluate", model, shop / "log.parquet", "--sample", 50, "--form", form)
    lines = [json.loads(line) for line in scores["jsonl"].splitlines()]
    assert lines == json.loads(scores["json"])["scores"]
    names, *values = [line.split("\t") for line in scores["tsv"].splitlines()]
    assert names == list(lines[0])
    assert [row[:3] for row in values] == [
        [one["segment"], one["metric"], str(one["k"])] for one in lines
    ]


def test_a_wrong_product_id_gets_the_nearest_one(model, call):
    product = json.loads(run("match", model, "sofa", "--form", "jsonl", "-k", 1))["product_id"]
    code, _, error = call("explain", model, "sofa", product.lower())
    assert code == 1
    assert f"got {product.lower()!r}; did you mean {product!r}?" in error
    assert find_near("45", ["1", "000045", "046"]) == "000045"
    assert find_near("P0000O17", ["P0000017", "Q1"]) == "P0000017"
    assert find_near("zebra", ["P0000017", "Q1"]) is None


STOPPED = """
import os, signal, time
from matchset.cli.console import training_bar
from matchset.cli.interrupts import ending_soon
from matchset.work.steps import Progress

signal.signal(signal.SIGINT, lambda *_: None)  # as if a kernel were running
with training_bar() as bar, ending_soon(bar.stop):
    bar(Progress("solve", 3, 10))
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


def test_after_ctrl_c_the_progress_bar_is_gone():
    master, slave = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-c", STOPPED], stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    shown = b""
    with suppress(OSError):  # the terminal ends with the process
        while part := os.read(master, 65_536):
            shown += part
    os.close(master)
    assert done.wait(60) == 130
    assert b"solve" in shown
    _, _, after = shown.partition(b"matchset: stopped")
    assert after.strip() == b"; nothing was saved"


def test_queries_come_from_standard_input_named_by_a_hyphen(model):
    lines = run("match", model, "--file", "-", "-k", 1, stdin="sofa\nmug\n").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["sofa", "mug"]


@pytest.mark.parametrize("command", find_targets())
def test_help_names_no_module_of_ours(command):
    assert not re.search(r"\b(matchset|data|learn|columns|cli)\.[a-z_]+", app[command].help)


def test_a_model_is_inspected_and_verified(model):
    said = run("inspect", model, "--verify")
    for part in ("every byte is as it was written", "bytes per weight", '"branching": 8'):
        assert part in said


def test_a_product_is_explained(model):
    product = json.loads(run("match", model, "sofa", "--form", "jsonl", "-k", 1))["product_id"]
    assert "found at rank 1" in run("explain", model, "sofa", product)


def test_a_model_is_pruned(model, tmp_path):
    assert "weights" in run("prune", model, "--threshold", 0.35, "-o", tmp_path / "small")
    n_weights = ms.load(tmp_path / "small").tree.n_weights
    assert n_weights < ms.load(model).tree.n_weights
    layers = re.findall(r"nodes, ([0-9,]+) weights", run("inspect", tmp_path / "small"))
    assert sum(int(layer.replace(",", "")) for layer in layers) == n_weights


def test_a_model_is_evaluated(model, shop):
    said = run("evaluate", model, shop / "log.parquet", "--sample", 100)
    assert "Recall" in said
    assert "cold product" in said


def test_a_filter_by_a_value_that_no_product_has_gives_a_hint(model):
    arguments = [COMMAND, "match", model, "sofa", "--where", "locale = 'xx'"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "no product has locale = 'xx'" in done.stderr


def test_mistakes_are_one_sentence(model, shop, tmp_path):
    log, key = shop / "log.parquet", tmp_path / "key.csv"
    key.write_text("sku,words\n1,sofa\n")
    faults = [
        (["describe", tmp_path / "none.csv"], "none.csv"),
        (["simulate", "--products", 5, "-o", tmp_path], "products must be at least 100; got 5"),
        (["match", tmp_path, "sofa"], "cannot be read: it is a folder"),
        (["match", tmp_path / "none", "sofa"], "none: cannot be read: No such file"),
        (["match", key, "sofa"], "key.csv: not a file of matchset"),
        (["simulate", "-o", key], "key.csv: File exists"),
        (["describe", key, "--product", "sku"], "key.csv: --query must name a column, as"),
        (["describe", key, "--query", "term"], "key.csv: --query must name a column; got 'term'"),
        (["train", log, "--catalog", key, "-o", tmp_path / "m"], "--catalog-title must name a"),
        (["match", model, "sofa", "--where", "prize < 3"], "price"),
        (["prune", model, "--threshold", 99, "-o", tmp_path / "s"], "none is left; got 99.0"),
        (["prune", model, "--threshold", -1, "-o", tmp_path / "s"], "zero or positive, and finite"),
        (["train", log, "-o", model], "already exists; --overwrite replaces it"),
        (["train", log, "-o", tmp_path / "m", "--seed", -1], "at least 0; got -1"),
    ]  # fmt: skip
    for arguments, part in faults:
        said = run(*arguments, ok=False)
        assert part in said
        assert "Errno" not in said


def test_a_server_that_is_not_there_is_one_line(shop):
    said = run("evaluate", "http://127.0.0.1:9", shop / "log.parquet", ok=False)
    assert said.startswith("matchset: http://127.0.0.1:9: no answer")
    assert said.count("\n") == 1


def test_the_demo_runs_and_runs_again(tmp_path):
    out = tmp_path / "demo"
    said = run("demo", "--out", out)
    for part in ("Training", "never seen", "BM25, stemmed", "Match('couch', 3 products)"):
        assert part in said
    assert f"matchset compare {out / 'events.csv'} --catalog {out / 'products.csv'}" in said
    assert len(ms.load(out / "model").match("couch")) > 0
    (out / "model").rename(tmp_path / "model")
    run("demo", "--out", out)
    assert ms.load(out / "model").match("couch") == ms.load(tmp_path / "model").match("couch")
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    assert "must be new, empty or of an earlier demo" in run("demo", "-o", foreign, ok=False)
    assert "must be a folder" in run("demo", "-o", foreign / "letter.txt", ok=False)


def test_matchers_are_compared_and_a_model_is_swept(shop, tmp_path):
    out, log, settings = tmp_path / "report", shop / "log.parquet", tmp_path / "settings.toml"
    settings.write_text("[learn]\nbranching = 8\n")
    options = ["--catalog", shop / "products.parquet", "-o", out, "--quick", "--config", settings]
    bm25 = BM25.from_catalog(ms.read_catalog(shop / "products.parquet"))
    queries = ms.split_by_time(ms.read_log(log), test_days=30).test.queries
    mine = tmp_path / "mine.csv"
    bm25.match(queries, 50).to_pandas().to_csv(mine, index=False)
    rows = ["--run", mine, "--rows", "match_set", "bm25"]
    said = run("compare", log, *options, *rows)
    assert "BM25: Recall@10/50/100" in said
    assert "mine: Recall@10/50/100" in said
    assert "bought product among the first 10 of Match set than of mine" in said
    assert str(out / "report.html") in said
    assert "(stored)" in run("compare", log, *options, *rows)
    said = run("sweep", out / "models" / "match_set", log, "--split", "auto", "-o", out, "--quick")
    assert "threshold 0.45" in said
    results = json.loads((out / "results.json").read_text())
    assert results["sweep"] is not None  # of the same test
    n_queries = results["sweep"]["n_queries"]
    run("sweep", out / "models" / "match_set", log, "-o", tmp_path / "whole", "--quick")
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert whole["sweep"]["n_queries"] > n_queries
    command = results["comparison"]["setting"]["command"]
    assert command.startswith("matchset compare LOG --catalog CATALOG -o OUT --quick")
    assert "--run RUN" in command
    command = results["sweep"]["setting"]["command"]
    assert command.startswith("matchset sweep MODEL LOG --split auto -o OUT")


def test_mistakes_of_experiments_are_one_sentence(shop, tmp_path):
    log, key = shop / "log.parquet", tmp_path / "key"
    key.write_text("secret")
    faults = [
        (["compare", log, "-o", key], f"{key}: cannot be written: Not a directory"),
        (["compare", log, "-o", tmp_path, "--rows", "bm26"], "rows must be among match_set"),
        (["compare", log, "-o", tmp_path, "--run", tmp_path / "none.csv"], "there is no such file"),
        (["compare", "--catalog", log, "-o", tmp_path], "a catalog needs a log"),
        (["sweep", tmp_path, "-o", tmp_path], "a model needs a log"),
        (["compare", log, "-o", tmp_path, "--split", "none"], "split must be auto, time or query"),
    ]  # fmt: skip
    for arguments, part in faults:
        assert part in run(*arguments, ok=False)


def test_several_parts_follow_one_flag(tmp_path):
    goods, log = ms.lab.simulate_shop(products=100).save(tmp_path)
    parts = ["--parts", "tree", "lexical", "neighbors"]
    run("train", log, "--catalog", goods, *parts, "-o", tmp_path / "model")
    assert ms.load(tmp_path / "model").config.parts == ("tree", "lexical", "neighbors")


def test_a_tree_alone_has_no_part_to_drop(model, tmp_path):
    said = run("prune", model, "--drop", "tree", "-o", tmp_path / "none", ok=False)
    assert "--drop is for a match set; got a xr_linear" in said
