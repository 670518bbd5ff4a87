"""Settings of the whole suite: speed is measured in benchmarks, never asserted in a timed test."""

from hypothesis import settings

settings.register_profile("matchset", deadline=None)
settings.load_profile("matchset")
