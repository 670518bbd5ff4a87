"""What Schemathesis must know beside the schema: filters, names of attributes and matchers."""

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
schemathesis.openapi.format("matcher", st.sampled_from(["xr_linear", "bm25"]))


@schemathesis.hook
def map_body(context, body):
    """Send 7 for 7.0, which JSON Schema takes for an integer and the server does not."""
    if isinstance(body, dict):
        return {name: map_body(context, value) for name, value in body.items()}
    if isinstance(body, list):
        return [map_body(context, value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body
