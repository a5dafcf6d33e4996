"""Hatch's hook: a wheel, and an editable install, come with the built page (scripts/page.py)."""

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page before hatch looks for files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """In a process of its own, which finds scripts/ by the folder that it runs in."""
        if subprocess.run([sys.executable, "-m", "scripts.page"], cwd=self.root).returncode:
            self.app.abort("parley: without the page no wheel is built")
