"""A folder with the credentials of each process: a password for Redis or Postgres, and its URL."""

import secrets
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click

from core.access.database_roles import url_for
from core.configuration.settings import Settings
from core.errors import StartupError

FOLDER = "access"
PUBLIC = 0o644  # of a file that holds hashes of long random passwords only
PRIVATE = 0o600
POSTGRES_URLS = ("postgresql", "postgres", "postgresql+asyncpg")
REDIS_URLS = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")


def url_option(schemes: tuple[str, ...], like: str) -> Callable[..., str | None]:
    """An option's callback: refuses a value that is no URL of these schemes before anything is written. The
    message does not repeat it, as it may hold a password."""

    def checked(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
        if url is not None and not is_server_url(url, schemes):
            known = ", ".join(f"{scheme}://" for scheme in schemes)
            raise click.BadParameter(f"that is no URL of such a server: it is like {like} (with {known})")
        return url

    return checked


def is_server_url(url: str, schemes: tuple[str, ...]) -> bool:
    """True for a URL of one of these schemes that names a host or socket."""
    try:
        parts = urlsplit(url)
        named = parts.path if parts.scheme == "unix" else parts.hostname or "host" in parse_qs(parts.query)
        return parts.scheme in schemes and bool(named) and parts.port != 0
    except ValueError:  # a port or an address that is none
        return False


def access_folder(settings: Settings, given: Path | None) -> Path:
    """The folder that was given, else the one in PARLEY_HOME."""
    return given or settings.home / FOLDER


def password_in(folder: Path, user: str, url: str | None) -> str:
    """A user's password, made at the first use. With `url` (the server's address) also writes `<user>.url`,
    the URL with user and password."""
    path = folder / f"{user}.password"
    try:
        password = path.read_text().strip()
    except FileNotFoundError:
        password = secrets.token_hex(32)
        write_whole(path, password)
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error
    if url is not None:
        write_whole(folder / f"{user}.url", url_for(url, user, password))
    return password


def write_whole(path: Path, text: str, mode: int = PRIVATE) -> None:
    """Write the file at once: a reader sees the old content or all of the new."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.touch(mode=PRIVATE)
        draft.write_text(text)
        draft.chmod(mode)
        draft.replace(path)
    except OSError as error:
        raise StartupError(f"cannot write {path}: {error.strerror}") from error
