"""Rare collections of garbage, for processes that keep much and must answer soon."""

import gc


def spare_collections() -> None:
    """Make full collections rare, and leave out what there is by now: each walks all live objects, those of
    every library too, while nobody is answered."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
