"""What commands of other packages render operations with: options of a struct, running, printing. Kept out of
billing.api, so that a process's start does not import them."""

from billing.cli.operations import (
    CommandTerms,
    all_pages,
    answered,
    asks,
    facts_of,
    performed,
    with_performer,
)
from billing.cli.performers import Performer
from billing.cli.run_command import show, show_table

__all__ = [
    "CommandTerms",
    "Performer",
    "all_pages",
    "answered",
    "asks",
    "facts_of",
    "performed",
    "show",
    "show_table",
    "with_performer",
]
