"""docs/operations.md lists every setting with its default."""

import re
from pathlib import Path

from core.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_every_setting_is_documented_with_its_default():
    """A setting that the page does not list, or lists with another default, fails."""
    listed = dict(re.findall(r"^\| `PARLEY_(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    expected: dict[str, str] = {}
    for name, field in Settings.model_fields.items():
        default = "~/.parley" if field.default_factory else field.default
        expected[name.upper()] = "(unset)" if default in (None, "") else str(default)
    assert listed == expected
