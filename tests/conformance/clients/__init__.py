"""What a client of parley.v1 is held to, as data (README.md)."""
