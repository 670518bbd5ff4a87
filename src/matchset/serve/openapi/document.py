"""Document: how does the server describe itself to programs, as OpenAPI?"""

from __future__ import annotations

from collections.abc import Sequence

from matchset.serve.http.endpoints import Endpoint
from matchset.serve.http.request_errors import CODES
from matchset.serve.http.request_schemas import make_request_schemas
from matchset.serve.http.validation import Json, find_errors
from matchset.serve.openapi.schema import make_response_schemas, ref
from matchset.serve.options import Limits

_KEY = "key"
_BODY_CODES = {"bad_json", "body_too_complex", "body_too_large", "body_too_slow", "not_json"}


def make_document(endpoints: Sequence[Endpoint], limits: Limits, matchers: Sequence[str]) -> Json:
    """The whole OpenAPI document."""
    requests = make_request_schemas(limits, matchers)
    paths: dict[str, Json] = {}
    schemas = make_response_schemas()
    for endpoint in endpoints:
        request = None if endpoint.request is None else requests[endpoint.request]
        if request is not None and endpoint.method == "POST":
            schemas[_name(endpoint)] = request
        operations = paths.setdefault(endpoint.path, {})
        operations[endpoint.method.lower()] = _describe(endpoint, request)
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
            "securitySchemes": {_KEY: {"type": "http", "scheme": "bearer"}},
        },
    }


def _name(endpoint: Endpoint) -> str:
    return f"{str(endpoint.request).title()}Request"


def _describe(endpoint: Endpoint, request: Json | None) -> Json:
    operation: Json = {
        "operationId": endpoint.handler.__name__,
        "summary": str(endpoint.handler.__doc__).removesuffix("."),
    }
    codes = {"bad_host", "headers_too_large", "internal", "overloaded", *endpoint.codes}
    if endpoint.needs_key:
        operation["security"] = [{_KEY: []}, {}]
        codes.add("unauthorized")
    if request is not None:
        codes |= find_errors(request)
        if endpoint.method == "POST":
            content = _json({"schema": ref(_name(endpoint)), "example": endpoint.body})
            operation["requestBody"] = {"required": True, "content": content}
            codes |= _BODY_CODES
        else:
            operation["parameters"] = _describe_parameters(endpoint, request)
            codes.add("url_too_long")
    operation["responses"] = _describe_responses(endpoint, codes)
    return operation


def _describe_parameters(endpoint: Endpoint, request: Json) -> list[Json]:
    examples = endpoint.body or {}
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in endpoint.path else "query",
            "required": name in request["required"],
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
            **({"example": examples[name]} if name in examples else {}),
        }
        for name, schema in request["properties"].items()
    ]


def _describe_responses(endpoint: Endpoint, codes: set[str]) -> Json:
    content: Json = {"text/plain": {"schema": {"type": "string"}}}
    if endpoint.response is not None:
        content = _json({"schema": ref(endpoint.response), "example": endpoint.example})
    responses: Json = {"200": {"description": "Success.", "content": content}}
    for status in sorted({CODES[code][0] for code in codes}):
        listed = [code for code in CODES if code in codes and CODES[code][0] == status]
        examples = {
            code: {
                "value": {
                    "error": {"code": code, "message": CODES[code][1]},
                    "request_id": "6e377ab8-1",
                }
            }
            for code in listed
        }
        content = _json({"schema": ref("Error"), "examples": examples})
        responses[str(status)] = {"description": ", ".join(listed), "content": content}
    return responses


def _json(content: Json) -> Json:
    return {"application/json": content}
