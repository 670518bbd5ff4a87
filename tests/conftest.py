"""Settings of the whole suite: speed is measured in benchmarks, never asserted in a timed test."""

import os
import shutil

import pytest
from command_line import call_main
from hypothesis import settings
from serving import make_shop

pytest_plugins = ["browser", "pages"]  # fixtures

settings.register_profile("full", deadline=None)
settings.register_profile("few", deadline=None, max_examples=15)  # under a sanitizer
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))


@pytest.fixture(scope="session")
def served_shop(tmp_path_factory):
    """A folder with a model to serve; see `serving.make_shop`."""
    return make_shop(tmp_path_factory.mktemp("served"))


@pytest.fixture
def folder(served_shop, tmp_path):
    """A folder of its own, whose model may be replaced under a server."""
    shutil.copy(served_shop / "model", tmp_path / "model")
    shutil.copy(served_shop / "keys", tmp_path / "keys")
    return tmp_path


@pytest.fixture
def call():
    """Call the command line in this process: its exit code, output and errors."""
    return call_main
