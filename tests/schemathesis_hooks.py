"""What Schemathesis has to know beside the schema: how filters read, which attributes exist."""

import schemathesis
from hypothesis import strategies as st

FILTERS = [
    "",
    "price < 20",
    "brand is not null",
    "not (stock > 0) or price >= 3.5",
    "locale in ('en-US', 'de-DE') and launched > '2026-01-01'",
]
ATTRIBUTES = ["price", "brand", "launched"]
schemathesis.openapi.format("filter", st.sampled_from(FILTERS))
schemathesis.openapi.format("attribute", st.sampled_from(ATTRIBUTES))
schemathesis.openapi.format(
    "attributes", st.lists(st.sampled_from(ATTRIBUTES), min_size=1, unique=True).map(",".join)
)
