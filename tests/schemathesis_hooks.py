"""What Schemathesis has to know beside the schema: how filters read."""

import schemathesis
from hypothesis import strategies as st

FILTERS = [
    "",
    "price < 20",
    "brand is not null",
    "not (stock > 0) or price >= 3.5",
    "locale in ('en-US', 'de-DE') and launched > '2026-01-01'",
]
schemathesis.openapi.format("filter", st.sampled_from(FILTERS))
