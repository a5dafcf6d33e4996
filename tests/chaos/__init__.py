"""Loads, faults and their figures."""
