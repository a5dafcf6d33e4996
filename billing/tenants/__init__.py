"""Tenants, projects, users, keys, plans and terms, and the record of administrators' changes."""
