"""Base class of each part of the settings. Only `core.configuration.settings.Settings` is a model.

A model class costs more than a millisecond of each command's start; pydantic takes the fields of plain bases
too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

    SettingsPart = BaseSettings
else:

    class SettingsPart:
        """Base of a part's settings."""
