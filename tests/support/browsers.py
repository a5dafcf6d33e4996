"""Which Chromium tests drive: the system's where there is one that starts, else Playwright's own."""

import os
import shutil

CHROMIUM = "PARLEY_TEST_CHROMIUM"  # "playwright": its own, also where the system has one
NAMES = ("chromium-headless-shell", "chromium")  # the shell is Chromium without windows, for 0.6 of the CPU


def chromium_path() -> str | None:
    """For Playwright's `executable_path`; None: its own."""
    if os.environ.get(CHROMIUM) == "playwright":
        return None
    return next((path for name in NAMES if (path := shutil.which(name))), None)
