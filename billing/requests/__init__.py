"""Requests that are over, found and explained; and those that were refused."""
