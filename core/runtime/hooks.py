"""Hooks by which chaos and tests put something into a process of the platform (chaos/injected/). Empty in the
product: nothing in the wheel sets one, and no variable or setting does."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # each process of a test imports this as it begins
    from tokenizers import Tokenizer

# Beginnings of variables that are no misspelt settings, and that children get too.
injected: tuple[str, ...] = ()
# Called with PARLEY_HOME as a process begins, and with the name of a failpoint as it passes one.
at_start: Callable[[Path], None] | None = None
at_failpoint: Callable[[str], None] | None = None
# Called as a worker begins: returns a maker of an engine in place of vLLM, or None.
other_engine: "Callable[[], Callable[[Tokenizer], Any] | None] | None" = None
