"""Attacks that were tried, and the sweeps that keep their doors closed."""
