"""A folder with what a process shows to Redis and to Postgres: a password each, and a URL that has it."""

import secrets
from pathlib import Path

from core.database_roles import url_for
from core.errors import StartupError
from core.settings import Settings

FOLDER = "access"
PUBLIC = 0o644  # of a file that holds hashes of long random passwords only
PRIVATE = 0o600


def access_folder(settings: Settings, given: Path | None) -> Path:
    """By default in PARLEY_HOME."""
    return given or settings.home / FOLDER


def password_in(folder: Path, user: str, url: str | None) -> str:
    """A user's password, made at the first use. `url`: where their server is; `<user>.url` gets the whole."""
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
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.touch(mode=PRIVATE)
        draft.write_text(text)
        draft.chmod(mode)
        draft.replace(path)
    except OSError as error:
        raise StartupError(f"cannot write {path}: {error.strerror}") from error
