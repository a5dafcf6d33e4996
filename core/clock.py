"""Time for shells. Deciding code takes `now` as an argument instead."""

import time


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
