"""Settings of the whole suite: speed is measured in benchmarks, never asserted in a timed test."""

import os

from hypothesis import settings

pytest_plugins = ["browser"]  # a fixture of that name

settings.register_profile("full", deadline=None)
settings.register_profile("few", deadline=None, max_examples=15)  # under a sanitizer
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))
