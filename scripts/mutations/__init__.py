"""Plants small faults, one at a time, and runs the tests that must notice: `python -m scripts.mutations`."""
