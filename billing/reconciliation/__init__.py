"""Comparison of the books and counters that must agree."""
