"""The parts of which the OpenAPI v3 documents of this program are made: schemas of fields, and parameters."""

from __future__ import annotations

from api.objects import Raw


def named(name: str) -> Raw:
    """Returns a reference to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str, **more: str) -> Raw:
    """Returns the schema of a text."""
    return {"description": description, "type": "string", **more}


def number(description: str) -> Raw:
    """Returns the schema of an integer of 32 bits, which is 0 if it is absent."""
    return {"description": description, "type": "integer", "format": "int32", "default": 0}


def long(description: str) -> Raw:
    """Returns the schema of an integer of 64 bits, which is 0 if it is absent."""
    return {"description": description, "type": "integer", "format": "int64", "default": 0}


def real(description: str) -> Raw:
    """Returns the schema of a number with decimals."""
    return {"description": description, "type": "number", "format": "double"}


def truth(description: str) -> Raw:
    """Returns the schema of true or false."""
    return {"description": description, "type": "boolean"}


def several(items: Raw, description: str) -> Raw:
    """Returns the schema of a list."""
    return {"description": description, "type": "array", "items": items}


def described(description: str, needed: tuple[str, ...] = (), /, **properties: Raw) -> Raw:
    """Returns the schema of an object; ``needed`` are the fields that it always has."""
    required = {"required": list(needed)} if needed else {}
    return {"description": description, "type": "object", "properties": properties, **required}


def quantities(**descriptions: str) -> Raw:
    """Returns the schemas of fields that are quantities."""
    return {name: text(f"{description} A quantity.") for name, description in descriptions.items()}


def of_path(name: str, description: str) -> Raw:
    """Returns a parameter that is a part of the path."""
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def of_query(name: str, description: str, schema: Raw) -> Raw:
    """Returns a parameter of the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}
