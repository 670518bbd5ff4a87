"""An error holds its facts in fields, and its message is made from them."""

import copy
import pickle
import re
import shlex

import pytest

from matchset.cli.console import format_error
from matchset.errors import (
    DataError,
    FilterError,
    ModelFileError,
    ParameterError,
    ServerError,
    TargetExistsError,
    install_command,
)

ERRORS = [
    DataError("must hold a query; got ''", path="log.csv", row=7, column="q"),
    DataError("must name a column", parameter="query", source="the given table"),
    ParameterError("must be positive; got 0", parameter="test_days"),
    ModelFileError("not a manifest of matchset", path="model"),
    TargetExistsError("model"),
    FilterError("expected a value; got the end", "price <", 7),
    ServerError("no answer", url="http://127.0.0.1:1", status=503, code="busy"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickle_and_copy(error):
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_a_message_says_where_then_which_rule_then_the_value():
    messages = [str(error) for error in ERRORS]
    assert messages[0] == "log.csv, row 7: column 'q' must hold a query; got ''"
    assert messages[1] == "the given table: query= must name a column"
    assert messages[2] == "test_days must be positive; got 0"
    assert messages[3] == "model: not a manifest of matchset"
    assert messages[4] == "model: already exists; overwrite=True replaces it"
    assert messages[5] == "expected a value; got the end\n  price <\n         ^"
    assert messages[6] == "http://127.0.0.1:1: no answer"


def test_the_command_line_names_flags_where_python_names_parameters():
    assert format_error(ERRORS[1]) == "the given table: --query must name a column"
    assert format_error(ERRORS[2]) == "--test-days must be positive; got 0"
    assert format_error(ERRORS[4]) == "model: already exists; --overwrite replaces it"


def test_a_changed_field_changes_the_message():
    error = ModelFileError("damaged", path="/run/snapshot/0/manifest.json")
    error.path = error.path.relative_to("/run/snapshot/0")
    assert str(error) == "manifest.json: damaged"


def test_a_path_that_cannot_be_printed_is_escaped():
    assert str(DataError("must not be empty", path="a\nb.csv")) == "'a\\nb.csv': must not be empty"


def test_a_hint_names_the_packages_of_an_extra_and_not_ours():
    words = shlex.split(install_command("serve"))
    assert words[:2] == ["pip", "install"]
    names = {re.match(r"[a-z-]+", word)[0] for word in words[2:]}
    assert {"starlette", "granian"} <= names
    assert not names & {"matchset", "numpy", "matplotlib"}


def test_a_hint_names_the_extra_where_its_packages_are_not_known():
    assert install_command("unheard") == "pip install 'matchset[unheard]'"
