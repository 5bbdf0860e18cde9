# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that docs/schemas/ uses."""

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
KNOWN = {"$schema", "title", "type", "const", "enum", "properties", "required", "additionalProperties", "items"}


def faults(value, schema, place="document"):
    """One sentence for each place where the value does not fit the schema."""
    assert set(schema) <= KNOWN, f"{place}: this checker does not know {set(schema) - KNOWN}"
    if "const" in schema and value != schema["const"]:
        return [f"{place} is {value!r}, not {schema['const']!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{place} is {value!r}, not one of {schema['enum']}"]
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    if not any(TYPES[name](value) for name in types):
        return [f"{place} is {value!r}, not {' or '.join(types)}"]
    if isinstance(value, list):
        items = schema.get("items", {})
        return [fault for at, item in enumerate(value) for fault in faults(item, items, f"{place}[{at}]")]
    if not isinstance(value, dict):
        return []
    properties = schema.get("properties", {})
    found = [f"{place} has no {name!r}" for name in schema.get("required", []) if name not in value]
    if schema.get("additionalProperties") is False:
        found += [f"{place} has {name!r}, which the schema does not list" for name in value if name not in properties]
    for name in properties.keys() & value.keys():
        found += faults(value[name], properties[name], f"{place}.{name}")
    return found
