"""The OpenAPI document says what the models take and give."""

from __future__ import annotations

import extempo as ex
from extempo.core.types import TensorType, float32, int64
from extempo.exporting.sizes import parse_size
from extempo.serving.description import schema_of

from .client import serving


def test_a_type_is_nested_lists_with_sizes_where_they_are_fixed():
    schema = schema_of(TensorType((parse_size("n"), 2), int64))
    assert schema["description"] == "i64[n, 2]"
    assert "minItems" not in schema
    assert schema["items"]["minItems"] == schema["items"]["maxItems"] == 2
    assert schema["items"]["items"] == {"type": "integer"}
    assert {"type": "number"} in schema_of(TensorType((), float32))["anyOf"]


def test_every_reference_leads_somewhere_and_examples_are_answered(tagger, doubling):
    with serving(tagger=tagger, doubling=doubling) as (service, client):
        service.models.add("tagger", 2, ex.program(lambda x: x + 1, ex.ones(2)))
        document = client.get("/openapi.json").json()
        assert document["openapi"] == "3.1.0"
        assert set(document["paths"]) >= {"/predict", "/predict/tagger", "/predict/tagger/1", "/predict/tagger/2"}

        def references(part):
            if isinstance(part, dict):
                yield from [part["$ref"]] if "$ref" in part else []
                part = list(part.values())
            for one in part if isinstance(part, list) else []:
                yield from references(one)

        names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) == names
        for path in ("/predict", "/predict/tagger/1"):
            body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
            assert client.post(path, body).status_code == 200
