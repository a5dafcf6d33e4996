"""URLs of the platform: those that `parley up` wrote into PARLEY_HOME, else by settings, on this machine."""

import json
from pathlib import Path

from core.configuration.settings import Settings
from core.files import file_lock

UP_FILE = "up.json"
UP_LOCK = "up.lock"


def gateway_url(settings: Settings) -> str:
    """The gateway's URL, as customers know it."""
    return (
        settings.gateway_url.rstrip("/")
        or _of_up(settings.home, "url")
        or url_at(settings.host, settings.port)
    )


def console_url(settings: Settings) -> str:
    """The console's URL."""
    return _of_up(settings.home, "console") or url_at(settings.console_host, settings.console_endpoint_port)


def portal_url(settings: Settings) -> str:
    """The URL of the console for tenants, as its members know it."""
    return (
        settings.portal_url.rstrip("/")
        or _of_up(settings.home, "portal")
        or url_at(settings.portal_host, settings.portal_endpoint_port)
    )


def url_at(bind: str, port: int) -> str:
    """URL by which this machine reaches a process that listens there."""
    host = "127.0.0.1" if bind in ("0.0.0.0", "::") else bind
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _of_up(home: Path, name: str) -> str:
    """URL in up.json; empty where no `parley up` runs, since its file stays behind."""
    try:
        found = json.loads((home / UP_FILE).read_text())[name] if file_lock.is_held(home / UP_LOCK) else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""
