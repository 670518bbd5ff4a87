"""Experiments are read from their records: what is there is found, and what is wrong is told."""

import json

import numpy as np
import pytest
from ab_tests import SHOES, event, record, simulate, write

from matchset.errors import DataError
from matchset.lab.report.experiment_page import make_reading_page, write_reading
from matchset.online.assignment import assign, hide_unit
from matchset.online.decision import list_decision
from matchset.online.definition import Experiment
from matchset.online.outcomes import read_outcomes
from matchset.online.reading import analyze
from matchset.online.records import QueryRecord


@pytest.fixture(scope="module")
def better(tmp_path_factory):
    path = tmp_path_factory.mktemp("better") / "records.jsonl"
    return write(path, simulate((0.10, 0.20)))


def test_records_are_read_as_searches_with_what_came_of_them(tmp_path):
    records = [
        record(1, "u", "old"),
        event(1, "click"),
        event(1, "click", "3"),
        event(1, "add_to_cart"),
        event(1, "purchase", revenue=12.5),
        record(2, "u", "old", ids=(), took=400, day=3),
        record(3, "v", "new"),
        event(3, "click", "99"),  # not in the answer
        event(8, "purchase"),  # of another search
    ]
    found = read_outcomes(write(tmp_path / "records.jsonl", records))
    order = np.lexsort([found.searches.values["latency, ms"], found.arm])[::-1]
    assert found.arms == ("new", "old")
    assert found.arm[order].tolist() == [1, 1, 0]
    shown = {name: value[order].tolist() for name, value in found.searches.values.items()}
    assert shown == {
        "purchase rate": [0, 1, 0],
        "cart rate": [0, 1, 0],
        "click rate": [0, 1, 1],
        "revenue per search": [0, 12.5, 0],
        "zero results": [1, 0, 0],
        "latency, ms": [0.4, 0.2, 0.2],
    }
    assert (found.n_events, found.n_strange) == (5, 1)
    assert found.searches.n_days == 3


def test_answers_and_events_may_come_in_different_files_and_from_own_tracking(tmp_path):
    write(tmp_path / "answers.jsonl", [record(1, "u", "old"), record(2, "v", "new")])
    own = {"action_name": "purchase", "query_id": "q2", "timestamp": "2026-01-01",
           "event_attributes": {"object": {"object_id": "1"}}}  # fmt: skip
    (tmp_path / "tracking.jsonl").write_text(json.dumps(own) + "\n")
    found = read_outcomes(str(tmp_path / "*.jsonl"))
    assert found.searches.values["purchase rate"].sum() == 1
    assert found.searches.values["revenue per search"].sum() == 0


def test_a_better_arm_is_found_and_the_verdict_says_so(better):
    reading = analyze(read_outcomes(better), experiment=SHOES, planned=1_000)
    headline, *facts = list_decision(reading)
    assert headline == "Yes: new sells more than old."
    row = reading.compared[0]
    assert (row.metric, row.arm) == ("purchase rate", "new")
    assert row.effect.always_low < 0.1 < row.effect.always_high
    assert any("Units per arm agree with the shares" in fact for fact in facts)
    assert {row.metric for row in reading.compared} == {
        "purchase rate",
        "click rate",
        "revenue per search",
        "latency, ms",
    }


def test_a_worse_arm_and_the_other_control(better):
    reading = analyze(read_outcomes(better), experiment=SHOES, control="new", planned=1_000)
    assert list_decision(reading)[0] == "No: old sells less than new."


def test_arms_that_do_not_differ_leave_the_verdict_open(tmp_path):
    path = write(tmp_path / "records.jsonl", simulate((0.15, 0.15), units=600))
    reading = analyze(read_outcomes(path), experiment=SHOES)
    assert list_decision(reading)[0].startswith("Not shown: whether new sells more than old")


def test_a_final_reading_decides_by_the_narrower_interval(tmp_path):
    path = write(tmp_path / "records.jsonl", simulate((0.10, 0.155), units=600, seed=2))
    found = read_outcomes(path)
    row = analyze(found, experiment=SHOES).compared[0]
    assert row.effect.is_sure_at_end
    assert not row.effect.is_sure
    assert list_decision(analyze(found, experiment=SHOES))[0].startswith("Not shown")
    assert list_decision(analyze(found, experiment=SHOES, is_final=True))[0].startswith("Yes")


def test_few_purchases_are_too_early(tmp_path):
    path = write(tmp_path / "records.jsonl", simulate((0.0, 0.3), units=30, searches=1))
    reading = analyze(read_outcomes(path), experiment=SHOES)
    assert list_decision(reading)[0].startswith("Too early: ")


def test_lost_units_of_an_arm_are_told_before_any_number(tmp_path):
    kept = [r for r in simulate((0.1, 0.1)) if not (isinstance(r, QueryRecord) and r.arm == "new"
            and int(r.query_id[1:]) % 3 == 0)]  # fmt: skip
    kept = [r for r in kept if not (isinstance(r, QueryRecord) and r.arm == "new"
            and r.unit < "5")]  # fmt: skip
    reading = analyze(read_outcomes(write(tmp_path / "r.jsonl", kept)), experiment=SHOES)
    assert list_decision(reading)[0].startswith("Do not trust this experiment: the arms have")


def test_assignment_is_checked_against_exposure(tmp_path, better):
    units = [f"unit {n}" for n in range(1_000)]
    found = analyze(read_outcomes(better), experiment=SHOES, units=[*units, "unseen"]).assignment
    assert (found.given, found.wrong, found.unknown) == (1_001, 0, 0)
    assert sum(found.exposed.values()) == 1_000
    salted = Experiment(name="shoes", salt="another", arms=SHOES.arms)
    strange = analyze(read_outcomes(better), experiment=salted, units=units)
    assert strange.assignment.unknown == 1_000
    swapped = [record(1, hide_unit(SHOES, "u"), "old"), record(2, hide_unit(SHOES, "v"), "old"),
               record(3, hide_unit(SHOES, "w"), "old"), record(4, hide_unit(SHOES, "x"), "new"),
               event(1, "purchase")]  # fmt: skip
    path = write(tmp_path / "swapped.jsonl", swapped)
    check = analyze(read_outcomes(path), experiment=SHOES, units=list("uvwx"))
    arms = {unit: assign(SHOES, unit).name for unit in "uvwx"}
    saw = {"u": "old", "v": "old", "w": "old", "x": "new"}
    assert check.assignment.wrong == sum(arms[unit] != saw[unit] for unit in "uvwx") > 0
    assert "saw another arm than the one" in list_decision(check)[0]


def test_units_that_saw_several_arms_are_left_out(tmp_path):
    records = [
        *simulate((0.1, 0.1), units=200),
        record(9_001, "both", "old"),
        record(9_002, "both", "new"),
    ]
    reading = analyze(read_outcomes(write(tmp_path / "r.jsonl", records)), experiment=SHOES)
    assert reading.mixed == 1
    assert sum(reading.searches.values()) == 400
    assert "1 units saw several arms and are left out." in list_decision(reading)


def test_many_units_that_saw_several_arms_are_a_fault(tmp_path):
    found = simulate((0.10, 0.20))
    seen = {r.unit: r.arm for r in found if isinstance(r, QueryRecord)}
    strays = [
        record(9_000 + n, unit, "old" if arm == "new" else "new")
        for n, (unit, arm) in enumerate(list(seen.items())[:500])
    ]
    outcomes = read_outcomes(write(tmp_path / "r.jsonl", [*found, *strays]))
    units = [f"unit {n}" for n in range(1_000)]
    reading = analyze(outcomes, experiment=SHOES, units=units)
    assert (reading.mixed, reading.units) == (500, 1_000)
    assert reading.assignment.wrong == 500  # a record of another arm is wrong, whichever it is
    said = list_decision(reading)[0]
    assert said.startswith("Do not trust this experiment")
    assert "500 of 1,000 units saw several arms, more than 1%" in said


def test_harm_that_the_verdict_does_not_count_is_told(tmp_path):
    records = simulate((0.2, 0.4), took=(200, 9_000), empty=(0.0, 0.2))
    reading = analyze(read_outcomes(write(tmp_path / "r.jsonl", records)), experiment=SHOES)
    said = "\n".join(list_decision(reading))
    assert said.startswith("Yes: new sells more")
    assert "Beware: new is slower than old." in said
    assert "Beware: new has more searches without results than old." in said


def interleaved(share, *, units=400, seed=0):
    """Records of interleaved lists; of the credited purchases, the second arm gets a share."""
    rng = np.random.default_rng(seed)
    origins = ("a", "b", "both")
    records = []
    for number in range(units):
        records.append(record(number, f"u{number}", "interleaved", origins=origins))
        if rng.random() < 0.5:
            product = "3" if rng.random() < 0.5 else "2" if rng.random() < share else "1"
            records.append(event(number, "purchase", product))
    return records


def test_interleaved_arms_are_compared_by_credits(tmp_path):
    found = read_outcomes(write(tmp_path / "r.jsonl", interleaved(0.8)))
    reading = analyze(found, planned=400)
    (preference,) = reading.preferences
    bought = found.searches.values["purchase rate"].sum()
    assert sum(preference.credited) < bought  # what both brought is nobody's
    assert preference.effect.always_low < 0.3 < preference.effect.always_high
    assert list_decision(reading)[0] == "Yes: customers prefer what only b brings."
    even = read_outcomes(write(tmp_path / "e.jsonl", interleaved(0.5)))
    assert list_decision(analyze(even))[0].startswith("Not shown: whether customers prefer b")


def test_records_of_several_experiments_need_a_name(tmp_path):
    path = write(tmp_path / "r.jsonl", [record(1, "u", "x"), record(2, "u", "y", name="hats")])
    with pytest.raises(DataError, match="must hold one experiment"):
        read_outcomes(path)
    assert read_outcomes(path, name="hats").arms == ("y",)
    with pytest.raises(DataError, match=r"must be one of .* got 'caps'"):
        read_outcomes(path, name="caps")


def test_a_definition_must_fit_the_records(better, tmp_path):
    other = Experiment(name="hats", salt="s", arms=SHOES.arms)
    with pytest.raises(DataError, match="must define the recorded experiment 'shoes'"):
        analyze(read_outcomes(better), experiment=other)
    path = write(tmp_path / "r.jsonl", [record(1, "u", "third"), event(1, "purchase")])
    with pytest.raises(DataError, match="must be of the arms old, new; got third"):
        analyze(read_outcomes(path), experiment=SHOES)
    with pytest.raises(DataError, match="must be one of the arms old, new; got 'third'"):
        analyze(read_outcomes(better), experiment=SHOES, control="third")


def test_records_of_no_experiment_are_refused(tmp_path):
    path = write(tmp_path / "r.jsonl", [event(1, "click")])
    with pytest.raises(DataError, match="must have the field 'query_response_hit_ids'"):
        read_outcomes(path)


def test_the_page_begins_with_the_verdict_and_escapes_names(better, tmp_path):
    reading = analyze(read_outcomes(better), experiment=SHOES, planned=1_000)
    page = write_reading(reading, tmp_path / "deep" / "report.html").read_text()
    assert page.index("Yes: new sells more than old.") < page.index("<h2>Numbers</h2>")
    assert page.index("<h2>Numbers</h2>") < page.index("<h2>Checks</h2>")
    assert "<script" not in page
    path = write(tmp_path / "r.jsonl", [record(1, "u", "<b>"), record(2, "v", "c")])
    assert "<b>" not in make_reading_page(analyze(read_outcomes(path)))
