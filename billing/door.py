"""What this package puts into groups of commands that are another's. Not in billing.api: a worker's start
does without it."""

from billing.cli.requests import find_command

__all__ = ["find_command"]
