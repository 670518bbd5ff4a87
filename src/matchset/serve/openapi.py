"""OpenAPI: how does the server describe itself?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from matchset.serve.endpoints import Endpoint
from matchset.serve.request_errors import CODES
from matchset.serve.response_schemas import Error

Json = dict[str, Any]


def make_document(endpoints: Sequence[Endpoint]) -> Json:
    """Return the OpenAPI document, made from the structs of requests and responses."""
    kinds = [one for each in endpoints for one in (each.request, each.response) if one is not None]
    kinds = list(dict.fromkeys([*kinds, Error]))
    refs, schemas = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    ref_of = dict(zip(kinds, refs, strict=True))
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        methods = paths.setdefault(endpoint.path, {})
        methods[endpoint.method.lower()] = _describe(endpoint, ref_of, schemas)
    codes = "\n".join(f"- `{code}` ({status}): {text}" for code, (status, text) in CODES.items())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "matchset",
            "summary": "Which products answer a query?",
            "description": f"Every error has one of these codes:\n\n{codes}",
            "version": "1",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(endpoint: Endpoint, ref_of: dict[type, Any], schemas: dict[str, Any]) -> Json:
    operation: Json = {
        "operationId": endpoint.handler.__name__,
        "summary": str(endpoint.handler.__doc__).partition("\n")[0].removesuffix("."),
    }
    if endpoint.needs_key:
        operation["security"] = [{"key": []}, {}]
    if endpoint.request is not None and endpoint.method == "POST":
        schema = {"schema": ref_of[endpoint.request], "example": endpoint.example}
        operation["requestBody"] = {"required": True, "content": {"application/json": schema}}
    elif endpoint.request is not None:
        schema = schemas[endpoint.request.__name__]
        operation["parameters"] = [
            _describe_parameter(endpoint, name, schema) for name in schema["properties"]
        ]
    content: Json = {"text/plain": {"schema": {"type": "string"}}}
    if endpoint.response is not None:
        content = {"application/json": {"schema": ref_of[endpoint.response]}}
    fault = {"application/json": {"schema": ref_of[Error]}}
    operation["responses"] = {
        "200": {"description": "Success.", "content": content},
        "default": {"description": "An error, see the list of codes.", "content": fault},
    }
    return operation


def _describe_parameter(endpoint: Endpoint, name: str, schema: Json) -> Json:
    described = dict(schema["properties"][name])
    # A query string has no null: what is optional is left out.
    choices = [one for one in described.pop("anyOf", []) if one != {"type": "null"}]
    if described.get("default", ...) is None:
        del described["default"]
    described = {**described, **(choices[0] if choices else {})}
    parameter = {
        "name": name,
        "in": "path" if f"{{{name}}}" in endpoint.path else "query",
        "required": name in schema["required"],
        "description": described.pop("description", ""),
        "schema": described,
    }
    example = endpoint.example or {}
    return {**parameter, "example": example[name]} if name in example else parameter
