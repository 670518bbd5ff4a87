"""`matchset add`, `update`, `remove` and `refresh` change a model where it lies."""

import errno
from inspect import signature

import pytest
from fresh_shop import make_goods, trained_shop

import matchset as ms
from matchset.cli.changing import add, refresh, remove, update
from matchset.cli.flags import LogColumns
from matchset.cli.inspection import inspect
from matchset.errors import DataError, ParameterError


@pytest.fixture
def model(tmp_path):
    trained_shop().save(tmp_path / "model")
    return tmp_path / "model"


def test_commands_add_update_and_remove(model, tmp_path, capsys):
    goods, prices, gone = (tmp_path / f"{name}.csv" for name in ("goods", "prices", "gone"))
    goods.write_text("sku,title,price,brand\nn1,zyxo rose,3,acme\nn2,zyxo mug,4,nova\n")
    prices.write_text("product_id,price\nn1,0.5\np001,0.75\n")
    gone.write_text("product_id\nn2\np002\n")
    add(model, goods)
    said = told(capsys)
    assert "162 products; generation 1: 2 added (1.2%), 0 updated, 0 retitled, 0 removed" in said
    update(model, prices, version=4)
    assert "generation 2: 2 added (1.2%), 1 updated, 0 retitled, 0 removed" in told(capsys)
    update(model, prices, version=4)
    assert "generation 2:" in told(capsys)
    remove(model, gone, id=("p003",))
    assert (
        "159 products; generation 3: 1 added (0.6%), 1 updated, 0 retitled, 2 removed (1.2%)"
        in told(capsys)
    )
    found = ms.load(model)
    assert list(found.match("zyxo", where="price < 1").ids) == ["n1"]
    assert not {"n2", "p002", "p003"} & set(found.products.ids)
    inspect(model, verify=True)
    said = told(capsys)
    assert "generation 3: 1 added (0.6%)" in said
    assert "last change" in said


def test_refresh_learns_from_a_log_and_says_what_it_did(model, tmp_path, capsys):
    log = tmp_path / "log.csv"
    rows = "blue soap,p159,9", "large mug,p001,9", "mug,stranger,2"
    dated = [f"{row},2031-01-02\n" for row in rows]
    log.write_text("".join(["query,sku,clicks,date\n", *dated]))
    goods = tmp_path / "goods.csv"
    goods.write_text("sku,title,price,brand\nn1,zyxo rose,3,acme\n")
    add(model, goods)
    told(capsys)
    refresh(model, [str(log)], columns=LogColumns(count="clicks"))
    said = told(capsys)
    assert "161 products; generation 2: 0 added (0.0%)" in said
    assert "2 new pairs of" in said
    assert "old ones from past queries; 1 of its products are not in the model: add them" in said
    assert "no full training is due" in said
    refreshed = ms.load(model)
    assert "p159" in refreshed.match("blue soap", 10).ids
    assert refreshed.provenance["last_day"] == "2031-01-02"
    inspect(model, verify=True)
    assert "no full training is due" in told(capsys)
    refresh(model, [str(log)], old_log=(str(log),), columns=LogColumns(count="clicks"))
    assert "old ones from the old log" in told(capsys)


def test_each_command_says_what_its_step_did(model, tmp_path, capsys):
    goods, gone = tmp_path / "goods.csv", tmp_path / "gone.csv"
    first = ms.load(model).products
    same = f'{first.ids[0]},"{first.titles[0]}",0,acme'
    goods.write_text(f"sku,title,price,brand\nn1,zyxo rose,3,acme\np002,zyxo mug,,\n{same}\n")
    add(model, goods)
    assert told(capsys).startswith("1 added, 1 updated, 0 removed, 1 unchanged 161 products;")
    add(model, goods)
    assert told(capsys).startswith("0 added, 0 updated, 0 removed, 3 unchanged 161 products;")
    update(model, goods)
    assert told(capsys).startswith("0 added, 0 updated, 0 removed, 3 unchanged 161 products;")
    gone.write_text("product_id\nn1\n" + "".join(f"x{n}\n" for n in range(7)))
    remove(model, gone)
    said = told(capsys)
    assert said.startswith("0 added, 0 updated, 1 removed, 0 unchanged, 7 not in the model: x0, x1")
    assert "x4, ... 160 products" in said


def test_remove_reads_ids_alone_whatever_else_is_in_the_file(model, tmp_path, capsys):
    gone = tmp_path / "gone.csv"
    rows = "p001,red,röd,1.000,5\n", "p001,blue,blå,2,5\n", "p002,,,x,6\n"
    gone.write_text("".join(["code,title,name,price,sku\n", *rows]), encoding="utf-16")
    remove(model, gone, product="code", encoding="utf-16")
    assert told(capsys).startswith("0 added, 0 updated, 2 removed, 0 unchanged 158 products;")
    assert not {"p001", "p002"} & set(ms.load(model).products.ids)
    taken = set(signature(remove).parameters)
    assert taken == {"model", "file", "id", "version", "product", "encoding"}


def test_remove_reads_a_column_that_is_called_id(model, tmp_path, capsys):
    (tmp_path / "ids.csv").write_text("id,reason\np003,old\n")
    remove(model, tmp_path / "ids.csv")
    assert "1 removed" in told(capsys)
    (tmp_path / "both.csv").write_text("sku,id,title\nA,1,mug\n")
    assert list(ms.read_catalog(tmp_path / "both.csv").ids) == ["A"]


def test_inspect_says_that_nothing_changed(model, capsys):
    inspect(model)
    assert "as trained" in told(capsys)


def test_commands_say_what_they_need(model, tmp_path):
    (tmp_path / "ids.csv").write_text("product_id,price\nn1,3\n")
    with pytest.raises(DataError, match="title"):
        add(model, tmp_path / "ids.csv")
    with pytest.raises(ParameterError, match="must be given, or a file; got neither"):
        remove(model)
    trained_shop().part("tree").save(tmp_path / "tree")
    with pytest.raises(ParameterError, match="must be a match set; got a xr_linear"):
        remove(tmp_path / "tree", id=("p001",))
    with pytest.raises(ParameterError, match="must be a match set; got a xr_linear"):
        refresh(tmp_path / "tree", ["nothing.csv"])


def told(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_training_over_a_changed_model_says_what_it_drops(model, caplog):
    changed = ms.load(model).add(make_goods({"n1": ("zyxo rose", 3.0, None)})).remove(["p001"])
    changed.save(model, overwrite=True)
    changed.prune(0.1).save(model, overwrite=True)
    assert not caplog.text  # all changes are in it
    trained_shop().save(model, overwrite=True)
    assert "generation 2: 1 added (0.6%), 0 updated, 0 retitled, 1 removed" in caplog.text
    assert "apply again all changes made after the catalog" in caplog.text
    caplog.clear()
    trained_shop().save(model, overwrite=True)
    assert not caplog.text


def test_a_value_of_another_kind_is_shown(model, tmp_path):
    (tmp_path / "prices.csv").write_text("product_id,price\np001,3\np002,cheap\np003,1.5\n")
    with pytest.raises(ValueError, match="got a text, such as 'cheap' of product 'p002'"):
        update(model, tmp_path / "prices.csv")


def test_a_full_disk_is_named_and_changes_nothing(call, model, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matchset.matchers.model_writer.append_change", fail)
    code, _, said = call("remove", model, "--id", "p001")
    assert (code, said) == (1, f"matchset: {model}: No space left on device; nothing changed\n")
    assert "p001" in ms.load(model).products.ids
