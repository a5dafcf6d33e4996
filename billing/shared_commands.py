"""Commands of this package that belong to another package's groups. Kept out of billing.api, so that a
worker's start does not import them."""

from billing.cli.requests import find_command

__all__ = ["find_command"]
