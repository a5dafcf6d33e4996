"""Which Chromium tests drive: the system's where there is one that starts, else Playwright's own."""

import os
import shutil

CHROMIUM = "PARLEY_TEST_CHROMIUM"  # "playwright": its own, also where the system has one


def chromium_path() -> str | None:
    """For Playwright's `executable_path`; None: its own."""
    return None if os.environ.get(CHROMIUM) == "playwright" else shutil.which("chromium")
