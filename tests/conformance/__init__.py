"""The conformance suite of parley.v1 (README.md): cases as data, and what plays them."""
