"""What fuzzing has found once never comes back, and the harness finds what it should."""

import json
import shutil

import fuzz
import fuzz_files
import numpy as np
import pytest
from match_sets import make_match_set

import matchset as ms

SLOW = {"work": 3, "records": 5}  # cases: each is a training, or the reading of an experiment


@pytest.fixture(scope="module")
def models(tmp_path_factory, served_shop):
    """Few models, as they take time to make: `make fuzz` has one of every kind."""
    folder = tmp_path_factory.mktemp("fuzz") / "models"
    folder.mkdir()
    make_match_set(tune=False).save(folder / "match_set")
    shutil.copy(served_shop / "bm25", folder / "bm25")
    return folder


@pytest.mark.parametrize("file", sorted(fuzz.FOUND.glob("*.json")), ids=lambda file: file.stem)
def test_a_case_that_failed_once_does_not_fail_again(file, models, tmp_path):
    fuzz.replay(file, models, tmp_path)


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_a_seed_makes_the_same_cases_and_they_hold(target, models, tmp_path):
    choose, run = fuzz.TARGETS[target]
    for number in range(SLOW.get(target, 15)):
        case, again = (choose(np.random.default_rng([7, number]), models) for _ in range(2))
        assert json.dumps(case) == json.dumps(again)
        with np.errstate(all="ignore"):
            run(case, models, tmp_path)


def test_a_forged_file_has_checksums_that_fit(models, tmp_path):
    case = {"base": "bm25", "edits": [["bytes", "products.ids.0", 3, "58"]]}
    fuzz_files.run_file(case, models, tmp_path)
    ms.verify(tmp_path / "model")
    assert ms.load(tmp_path / "model").products.ids != ms.load(models / "bm25").products.ids
