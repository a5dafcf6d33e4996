"""Noisy neighbours: detection, throttles, and proposals to move."""
