"""Look-up and explanation of ended requests, and of refused ones."""
