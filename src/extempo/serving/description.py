"""The OpenAPI document of a server's models, and what a JSON body looks like for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._version import __version__
from ..core.graph import type_text
from ..core.types import TensorType
from .bodies import ARROW, JSON, NPZ
from .models import Model, example

_KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "V": "number"}
_REFUSALS = {
    "400": "The body cannot be read.",
    "401": "The token is missing or wrong.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "415": "The body is neither JSON nor npz nor Arrow.",
    "422": "The inputs do not fit the model: names, types, sizes, indices.",
    "429": "Too many samples wait.",
    "503": "The server is shutting down, or has too many requests.",
    "504": "It took too long.",
}


def schema_of(type_: TensorType) -> dict[str, Any]:
    """Nested lists of numbers with their sizes, where those are fixed."""
    kind = _KINDS.get(type_.dtype.numpy.kind, "number") if hasattr(type_.dtype.numpy, "kind") else "number"
    schema: dict[str, Any] = {"type": kind}
    if kind == "number":
        schema = {"anyOf": [schema, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]}
    for size in reversed(type_.shape):
        schema = {"type": "array", "items": schema}
        if isinstance(size, int):
            schema.update(minItems=size, maxItems=size)
    return {**schema, "description": type_text(type_)}


def example_body(model: Model) -> dict[str, Any]:
    """A request that the model can answer, as far as sizes and types say."""
    return {"inputs": {name: array.tolist() for name, array in example(model.program).items()}}


def document(models: Sequence[Model], has_token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 description."""
    paths: dict[str, Any] = {
        "/health": {"get": _simple("Whether the server runs.")},
        "/ready": {"get": _simple("Whether it takes requests: 503 while models are tried, and at its end.")},
        "/metrics": {"get": _simple("Counts and times as Prometheus reads them.", "text/plain")},
        "/models": {"get": _simple("Names, versions, inputs and outputs of all models.")},
        "/reload": {"post": _simple("Read the files of all models anew; requests go on meanwhile.")},
    }
    schemas: dict[str, Any] = {"Error": _error()}
    default = models[0].name if models else ""
    latest = {model.name: max(m.version for m in models if m.name == model.name) for model in models}
    for model in models:
        key = f"{model.name}.{model.version}"
        schemas.update(_schemas(model, key))
        paths[f"/predict/{model.name}/{model.version}"] = {"post": _operation(model, key, "one version")}
        if model.version == latest[model.name]:
            paths[f"/predict/{model.name}"] = {"post": _operation(model, key, "the latest version")}
            if model.name == default:
                paths["/predict"] = {"post": _operation(model, key, "the default model")}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Extempo", "version": __version__, "description": "Programs of Extempo as a service."},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas},
    }
    if has_token:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


def _schemas(model: Model, key: str) -> dict[str, Any]:
    inputs = {spec.name: schema_of(spec.type) for spec in model.inputs}
    types = zip(model.outputs, model.program.graph.outputs, strict=True)
    outputs = {name: schema_of(node.type) for name, node in types}
    return {
        f"{key}.inputs": _object(inputs),
        f"{key}.outputs": _object({"outputs": _object(outputs)}),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _error() -> dict[str, Any]:
    status, message = {"type": "integer"}, {"type": "string"}
    return _object({"error": {"type": "object", "properties": {"status": status, "message": message}}})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(model: Model, key: str, which: str) -> dict[str, Any]:
    archive = {"schema": {"type": "string", "format": "binary"}}
    one = _object({"inputs": _ref(f"{key}.inputs")})
    many = _object({"instances": {"type": "array", "minItems": 1, "items": _ref(f"{key}.inputs")}})
    result = _ref(f"{key}.outputs")
    listed = _object({"predictions": {"type": "array", "items": {"anyOf": [result, _ref("Error")]}}})
    refused = {"application/json": {"schema": _ref("Error")}}
    responses: dict[str, Any] = {
        status: {"description": text, "content": refused} for status, text in _REFUSALS.items()
    }
    responses["200"] = {
        "description": "The outputs, in the form that `Accept` names, or in that of the body.",
        "content": {JSON: {"schema": {"anyOf": [result, listed]}}, NPZ: archive, ARROW: archive},
    }
    return {
        "summary": f"Run {model.name}, {which}.",
        "description": "One sample as JSON or as an archive of numpy.savez, several as a JSON list or as rows of an "
        "Arrow stream. Each sample of several is answered by itself.",
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"oneOf": [one, many]}, "example": example_body(model)},
                NPZ: archive,
                ARROW: archive,
            },
        },
        "responses": dict(sorted(responses.items())),
    }


def _simple(text: str, media: str = "application/json") -> dict[str, Any]:
    return {"summary": text, "responses": {"200": {"description": text, "content": {media: {}}}}}
