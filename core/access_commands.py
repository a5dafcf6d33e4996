"""`parley redis`: the users that Redis needs, made of what each process declares."""

import secrets
from pathlib import Path

import click

from core.errors import StartupError
from core.printed import say, say_lines
from core.redis_acl import acl_lines, set_commands, users
from core.settings import ADMISSION_PURPOSE, Settings


@click.group("redis")
def redis_command() -> None:
    """What Redis has to be told."""


@redis_command.command("acl")
@click.option("--pool", "pools", multiple=True, help="A pool of the installation. By default PARLEY_POOL.")
@click.option("--folder", type=click.Path(path_type=Path), help="By default PARLEY_HOME/access.")
@click.option("--set", "as_commands", is_flag=True, help="Print ACL SETUSER commands instead of the file.")
def acl_command(pools: tuple[str, ...], folder: Path | None, as_commands: bool) -> None:
    """Make one user for each kind of process, and for workers and supervisors one for each pool.

    The folder has each user's password (made once, mode 0600) and `users.acl`, which holds only their
    hashes: give it to every node as `aclfile`. Run it again after an upgrade or for a new pool, with all
    pools; passwords stay. docs/hardening.md goes through it.
    """
    settings = Settings()
    folder = folder or settings.home / "access"
    of = users(settings.installation, pools or [settings.pool])
    lines = acl_lines(of, {name: _password(folder / f"{name}.password") for name in of})
    if as_commands:
        say_lines("\n".join(set_commands(lines)))
        return
    _write(folder / "users.acl", "\n".join(lines) + "\n")
    say(f"{folder / 'users.acl'} has {len(of)} users; their passwords lie beside it")


@click.group("secrets")
def secrets_command() -> None:
    """Secrets that are made of the signing secret, for processes that do without it."""


@secrets_command.command("admission")
def admission_command() -> None:
    """Print PARLEY_ADMISSION_KEY, by which a biller knows what gateways admitted."""
    say(",".join(key.hex() for key in Settings().keyring.keys(ADMISSION_PURPOSE)))


def _password(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        made = secrets.token_hex(32)
        _write(path, made)
        return made
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise StartupError(f"cannot write {path}: {error.strerror}") from error
