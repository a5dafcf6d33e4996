"""Noisy neighbours: found, throttled, and proposed to move."""
