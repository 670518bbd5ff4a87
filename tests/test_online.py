"""Units keep their arms, arms get their shares, and records can be read back as a log."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import DAY_NUMBER, rows_of
from recorded import read_event_record, read_query_record
from scipy.stats import chi2_contingency, chisquare

from matchset.data.log_reader import read_ubi
from matchset.errors import DataError
from matchset.matchers.fusion_rules import FusionRule
from matchset.online.assignment import assign, flip_coins, hide_unit
from matchset.online.definition import Arm, Experiment, read_experiment
from matchset.online.interleaving import interleave
from matchset.online.records import EventRecord, QueryRecord, write_record

# Whoever changes these moves the customers of every running experiment to other arms.
FOREVER = [f"arm{arm}" for arm in (0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1)]
AT = "2026-01-02T10:00:00.000Z"
TOML = """
name = "towers"
salt = "autumn"

[[arms]]
name = "control"
matcher = "bm25"
share = 0.8

[[arms]]
name = "more"
matchers = ["bm25", "match_set"]
method = "rrf"
weights = [1.0, 2.0]
share = 0.2
"""


def make(mode="ab", name="towers", salt="autumn", shares=(0.8, 0.2)):
    arms = [
        Arm(name=f"arm{n}", matchers=(f"m{n}",), share=1.0 if mode != "ab" else share)
        for n, share in enumerate(shares)
    ]
    return Experiment(name=name, salt=salt, mode=mode, arms=tuple(arms))


def write(tmp_path, text):
    file = tmp_path / "experiment.toml"
    file.write_text(text)
    return file


def test_a_file_defines_matchers_fusions_and_shares(tmp_path):
    found = read_experiment(write(tmp_path, TOML))
    assert (found.name, found.mode, [arm.share for arm in found.arms]) == (
        "towers",
        "ab",
        [0.8, 0.2],
    )
    assert found.arms[0].matchers == ("bm25",)
    assert found.arms[1].rule == FusionRule(method="rrf", weights=(1.0, 2.0))
    assert Experiment.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_arms_without_shares_get_equal_ones(tmp_path):
    text = TOML.replace("share = 0.8", "").replace("share = 0.2", "")
    assert [arm.share for arm in read_experiment(write(tmp_path, text)).arms] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("share = 0.8", "share = 0.7", r"shares of the arms must add up to 1; got 0\.9"),
        ("share = 0.8", "share = 0", "arm 'control': share must be above 0 and at most 1; got 0"),
        ("share = 0.8", "share = true", "arm 'control': share must be a number; got True"),
        ('"more"', '"control"', "names of arms must be distinct"),
        ('name = "more"', "", "an arm must have a name; got none"),
        ('name = "more"', 'name = "../x"', "an arm's name must have 1 to 63 characters"),
        ('salt = "autumn"', "", "salt must be given; got none"),
        ('salt = "autumn"', 'salt = ""', "salt must have 1 to 256 characters; got 0"),
        ('salt = "autumn"', "salt = 7", "salt must be a text; got 7"),
        (
            'salt = "autumn"',
            'salt = "a"\nmode = "abc"',
            "mode must be one of ab, union, team_draft",
        ),
        ('salt = "autumn"', 'salt = "a"\nmode = "union"', "share is for mode ab; got 0.8"),
        ('salt = "autumn"', 'salt = "a"\ndepth = 0', "depth must be at least 1; got 0"),
        ('salt = "autumn"', 'salt = "a"\nsize = 0', "a field of an experiment must be one of arms"),
        ('matcher = "bm25"', "", "arm 'control': must have either matcher or matchers"),
        ('matcher = "bm25"', 'matcher = "bm25"\nweights = [1]', "weights is for several matchers"),
        ("[1.0, 2.0]", "[1.0]", r"weights must be 2, one per matcher; got \(1\.0,\)"),
        ('"rrf"', '"sum"', "arm 'more': method must be one of"),
        ('["bm25", "match_set"]', '["bm25", "bm25"]', "matchers must be distinct names"),
        ("[[arms]]", "[arms]", "must be TOML"),
    ],
)
def test_a_bad_file_is_refused_with_a_sentence(tmp_path, old, new, fault):
    with pytest.raises(DataError, match=fault) as caught:
        read_experiment(write(tmp_path, TOML.replace(old, new)))
    assert str(caught.value).startswith(f"{tmp_path / 'experiment.toml'}: ")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.toml: cannot be read: No such file"):
        read_experiment(tmp_path / "none.toml")


def test_an_arm_of_a_matcher_that_is_not_served_is_refused(tmp_path):
    found = read_experiment(write(tmp_path, TOML))
    found.check_matchers(["match_set", "bm25"])
    with pytest.raises(ValueError, match="arm 'more': matchers of an arm must be among bm25; got"):
        found.check_matchers(["bm25"])


def test_a_million_units_get_their_shares_and_experiments_are_independent():
    names = [f"user-{number}" for number in range(1_000_000)]
    shares = (0.5, 0.3, 0.2)
    first, second = make(shares=shares), make(name="other", shares=(0.5, 0.5))
    order = {arm: index for e in (first, second) for index, arm in enumerate(e.arms)}
    arms = np.array([(order[assign(first, unit)], order[assign(second, unit)]) for unit in names])
    counts = np.bincount(arms[:, 0])
    assert chisquare(counts, 1e6 * np.array(shares)).pvalue > 1e-4  # fixed: no test by chance
    together = np.bincount(2 * arms[:, 0] + arms[:, 1]).reshape(3, 2)
    assert chi2_contingency(together).pvalue > 1e-4
    runs = np.bincount(arms[:-1, 0] * 3 + arms[1:, 0]).reshape(3, 3)  # neighbors by name
    assert chi2_contingency(runs).pvalue > 1e-4


def test_a_unit_has_the_same_arm_for_all_time():
    found = [assign(make(), f"user-{number}").name for number in range(12)]
    assert found == FOREVER
    assert hide_unit(make(), "user-1") == "9d2dc49dad34ddf0a792efe2b2154a19"
    again = Experiment.from_dict(json.loads(json.dumps(make().to_dict())))
    assert [assign(again, f"user-{number}").name for number in range(12)] == FOREVER


def test_another_salt_or_name_assigns_and_hides_anew():
    units = [f"user-{number}" for number in range(2_000)]
    for other in (make(salt="winter"), make(name="other")):
        moved = np.mean([assign(make(), unit).name != assign(other, unit).name for unit in units])
        assert 0.27 < moved < 0.37  # 2 * 0.8 * 0.2
        assert hide_unit(make(), "user-1") != hide_unit(other, "user-1")


ids = st.lists(st.integers(0, 30).map(str), unique=True, max_size=20)


@given(ids, ids, st.integers(1, 40), st.text(max_size=5), st.sampled_from(["union", "team_draft"]))
def test_interleaving_takes_turns_and_is_stable(a, b, k, unit, mode):
    experiment = make(mode)
    whole = interleave(experiment, unit, "red shoes", a, b, 100)
    found = interleave(experiment, unit, "Red  SHOES", a, b, k)
    assert found.ids == whole.ids[:k]  # paging, reloads and spellings agree
    assert found.origins == whole.origins[:k]
    assert sorted(whole.ids) == sorted({*a, *b})
    for product, origin in zip(whole.ids, whole.origins, strict=True):
        assert product in (a if origin == "a" else b)
    if mode == "union":
        expected = ["both" if p in a and p in b else "a" if p in a else "b" for p in whole.ids]
        assert list(whole.origins) == expected


def test_team_draft_gives_both_arms_as_many_and_no_credit_for_a_common_beginning():
    a, b = ["x", "y", "1", "2", "3"], ["x", "y", "3", "4", "5"]
    seen = set()
    for number in range(200):
        found = interleave(make("team_draft"), f"user-{number}", "q", a, b, 6)
        assert found.origins[:2] == ("both", "both")
        assert sorted(found.origins[2:4]) == sorted(found.origins[4:6]) == ["a", "b"]
        seen.add((found.ids, found.origins))
    assert len(seen) == 4  # a coin for each round that can tell
    firsts = [interleave(make("team_draft"), str(n), "q", a, b, 3).origins[2] for n in range(4_000)]
    assert 0.47 < firsts.count("a") / len(firsts) < 0.53


def test_coins_differ_between_units_and_queries():
    experiment = make("union")
    flips = [flip_coins(experiment, f"u{n}", "q", 64) for n in range(500)]
    flips += [flip_coins(experiment, "u", f"q{n}", 64) for n in range(500)]
    assert len({tuple(row) for row in flips}) == 1_000
    assert abs(np.mean(flips) - 0.5) < 0.01
    correlation = np.corrcoef(np.array(flips).T) - np.eye(64)
    assert np.abs(correlation).max() < 0.15
    assert flip_coins(experiment, "ab", "c", 64) != flip_coins(experiment, "a", "bc", 64)


def make_query(number, **more):
    return QueryRecord(
        **{
            "experiment": "towers",
            "arm": "control",
            "unit": hide_unit(make(), f"user-{number}"),
            "query_id": f"q-{number}",
            "query": "Red Shoes",
            "timestamp": AT,
            "ids": ("00123", "7"),
            "microseconds": 40,
            "model_version": "3b1f0c9a7d2e",
            **more,
        }
    )


def test_records_are_read_back_as_a_log(tmp_path):
    queries = [make_query(1), make_query(2, query='two "words"\n', origins=("a", "both"))]
    events = [
        EventRecord(action="click", query_id="q-1", product="00123", timestamp=AT),
        EventRecord(
            action="purchase",
            query_id="q-2",
            product="7",
            timestamp=AT,
            position=2,
            revenue=12.5,
        ),
    ]
    for name, records in (("queries", queries), ("events", events)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(map(write_record, records)))
    log = read_ubi(
        queries=tmp_path / "queries.jsonl", events=tmp_path / "events.jsonl", strict=True
    )
    assert rows_of(log) == {
        ("red shoes", "00123", "click", DAY_NUMBER): 1.0,
        ("two words", "7", "purchase", DAY_NUMBER): 1.0,
    }
    for name, read, records in (
        ("queries", read_query_record, queries),
        ("events", read_event_record, events),
    ):
        lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        assert [read(json.loads(line)) for line in lines] == records
