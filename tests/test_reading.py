"""Experiments are read from their records: what is there is found, and what is wrong is told."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from ab_tests import SHOES, event, record, simulate, write

from matchset.errors import DataError
from matchset.online.decision import list_decision
from matchset.online.definition import Experiment
from matchset.online.outcomes import Dropped, read_outcomes
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
    assert row.effect.is_sure(at_end=True)
    assert not row.effect.is_sure()
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
    reading = analyze(outcomes, experiment=SHOES)
    assert (reading.mixed, reading.units) == (500, 1_000)
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


def test_the_control_of_interleaved_arms_can_be_chosen(tmp_path):
    found = read_outcomes(write(tmp_path / "r.jsonl", interleaved(0.8)))
    reading = analyze(found, planned=400, control="b")
    assert reading.arms == ("b", "a")
    assert list_decision(reading)[0] == "No: customers prefer what only b brings."
    usual = analyze(found, planned=400).preferences[0].credited
    assert reading.preferences[0].credited == usual[::-1]
    with pytest.raises(DataError, match="must be one of the arms a, b; got 'c'"):
        analyze(found, control="c")


def test_two_units_and_one_sided_credits_give_no_verdict(tmp_path):
    origins = ("a", "b", "both")
    few = [record(n, f"u{n % 2}", "interleaved", origins=origins, day=1 + n) for n in range(28)]
    few += [event(n, "purchase", "2") for n in range(28)]
    reading = analyze(read_outcomes(write(tmp_path / "few.jsonl", few)))
    headline, *facts = list_decision(reading)
    assert headline.startswith("Too early: 2 units chose what one arm alone brought")
    assert any("a share of 100.0% (unknown; at any time unknown)" in fact for fact in facts)
    many = [record(n, f"u{n}", "interleaved", origins=origins) for n in range(60)]
    many += [event(n, "purchase", "2") for n in range(60)]
    reading = analyze(read_outcomes(write(tmp_path / "many.jsonl", many)))
    assert list_decision(reading)[0].startswith("No verdict: only b brought anything of its own")
    two = [record(n, f"u{n % 2}", ("old", "new")[n % 2], day=1 + n) for n in range(28)]
    two += [event(n, "purchase") for n in range(9, 28)]
    reading = analyze(read_outcomes(write(tmp_path / "two.jsonl", two)), experiment=SHOES)
    reading = replace(reading, compared=tuple(replace(r, events=50) for r in reading.compared))
    assert list_decision(reading)[0].startswith("Too early: 1 units in old, 1 in new")


def test_records_of_several_experiments_need_a_name(tmp_path):
    path = write(tmp_path / "r.jsonl", [record(1, "u", "x"), record(2, "u", "y", name="hats")])
    with pytest.raises(DataError, match="must be one of the recorded experiments, 'hats', 'shoes'"):
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
    with pytest.raises(DataError, match="must hold answers to units of an experiment"):
        read_outcomes(path)


def test_an_event_that_is_sent_twice_counts_once(tmp_path):
    own = {"action_name": "purchase", "query_id": "q1", "timestamp": "2026-01-01T10:00:00Z",
           "event_attributes": {"object": {"object_id": "1"}, "revenue": 10}}  # fmt: skip
    again = {**own, "timestamp": "2026-01-01T11:00:00Z"}
    lines = [own, own, again]
    answers = write(tmp_path / "answers.jsonl", [record(1, "u", "old"), record(2, "v", "new")])
    tracked = tmp_path / "tracking.jsonl"
    tracked.write_text("".join(json.dumps(each) + "\n" for each in lines))
    found = read_outcomes([answers, str(tracked)])
    assert found.searches.values["revenue per search"].sum() == 20
    assert found.dropped.repeated == 1
    named = [{**each, "event_id": name} for each, name in zip(lines, ("x", "y", "x"), strict=True)]
    tracked.write_text("".join(json.dumps(each) + "\n" for each in named))
    found = read_outcomes([answers, str(tracked)])
    assert found.searches.values["revenue per search"].sum() == 20
    assert found.dropped.repeated == 1


def test_what_cannot_be_used_is_counted_by_kind_and_told(tmp_path):
    documents = [r.to_dict() for r in simulate((0.10, 0.20))]
    nobody, unarmed, untimed = (record(n, "w", "old").to_dict() for n in (9_001, 9_002, 9_003))
    del nobody["client_id"]
    del unarmed["query_attributes"]["arm"]
    del untimed["query_attributes"]["microseconds"]
    strange = event(9_003, "purchase").to_dict()
    strange["event_attributes"]["revenue"] = "ten"
    lost = [event(n, "click").to_dict() for n in range(20_000, 20_003)]
    path = tmp_path / "r.jsonl"
    documents += [nobody, unarmed, untimed, strange, *lost]
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    outcomes = read_outcomes(str(path))
    assert outcomes.dropped == Dropped(unmatched=3, incomplete=2)
    assert outcomes.searches.values["revenue per search"].max() == 20  # the strange one is none
    reading = analyze(outcomes, experiment=SHOES, planned=1_000)
    assert "latency, ms" in {row.metric for row in reading.compared}  # of all others
    headline, *facts = list_decision(reading)
    assert headline.startswith("Yes")
    assert "3 events have a query id without an answer; they do not count." in facts
    assert "2 answers lack an arm, a unit or a query id; they do not count." in facts


def test_many_events_of_no_answer_are_a_fault(tmp_path):
    records = simulate((0.10, 0.20))
    lost = [r for r in records if not isinstance(r, QueryRecord) or int(r.query_id[1:]) % 2]
    reading = analyze(read_outcomes(write(tmp_path / "r.jsonl", lost)), experiment=SHOES)
    assert "events have a query id without an answer, more than 10%" in list_decision(reading)[0]


def test_answers_of_a_unit_query_and_day_are_one_search(tmp_path):
    page = record(2, "u", "old", ids=(), took=400)
    records = [record(1, "u", "old"), page, replace(record(3, "u", "old"), query=" Red  Shoes "),
               record(4, "u", "old", day=2), record(5, "v", "old"),
               replace(record(6, "u", "old"), query="boots"),
               event(1, "click"), event(3, "purchase")]  # fmt: skip
    found = read_outcomes(write(tmp_path / "r.jsonl", records)).searches
    assert len(found) == 4
    best = int(np.argmax(found.values["purchase rate"]))
    assert found.values["click rate"][best] == 1
    assert found.values["zero results"].sum() == 0  # the second page was empty, not the search


def test_records_without_a_time_are_on_no_day(tmp_path):
    documents = [record(n, f"u{n}", "old", day=n).to_dict() for n in (1, 2, 3)]
    documents[2]["timestamp"] = "soon"
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    assert read_outcomes(str(path)).searches.n_days == 2


def test_a_folder_is_read_with_packed_files_and_torn_lines(tmp_path):
    records = simulate((0.1, 0.2), units=200)
    answers = [r for r in records if isinstance(r, QueryRecord)]
    events = [r for r in records if not isinstance(r, QueryRecord)]
    whole = write(tmp_path / "queries.jsonl", answers)
    tracked = write(tmp_path / "tracking.jsonl", events)
    expected = read_outcomes([whole, tracked])
    with gzip.open(tmp_path / "queries.1.jsonl.gz", "wb") as packed:
        packed.write((tmp_path / "queries.jsonl").read_bytes())
    torn = b'{"query_id": "q1", "quer'
    (tmp_path / "queries.jsonl").write_bytes(torn + b"\n" + torn)  # of a full disk, and right now
    outcomes = read_outcomes(tmp_path)
    assert outcomes.dropped.malformed == 2
    assert len(outcomes.searches) == len(expected.searches) == 400
    assert outcomes.n_events == expected.n_events == len(events)
    facts = list_decision(analyze(outcomes, experiment=SHOES))
    assert "2 lines are incomplete; they do not count." in facts


def test_files_of_another_form_are_refused(tmp_path):
    (tmp_path / "events.csv").write_text("query_id\n1\n")
    with pytest.raises(DataError, match=r"records must be JSON Lines, .*; got CSV"):
        read_outcomes(tmp_path / "events.csv")
