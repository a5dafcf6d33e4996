"""The first schema, by concept. Static like a version: changes are later versions."""
