"""The two forms of the suite: `make test`, and `make test-long` with all of it and more examples."""

import os
from typing import TypeVar

T = TypeVar("T")
IS_LONG = os.environ.get("PARLEY_TEST_LONG") == "1"


def by_form(short: T, long: T) -> T:
    """How much, in the form that runs."""
    return long if IS_LONG else short
