"""`parley redis`: the users that Redis needs, made of what each process declares."""

from pathlib import Path

import click

from core.access.access_folder import PUBLIC, REDIS_URLS, access_folder, password_in, url_option, write_whole
from core.access.redis_acl import acl_lines, set_commands, users
from core.configuration.settings import ADMISSION_PURPOSE, Settings
from core.terminal.terminal import print_line, print_lines


@click.group("redis")
def redis_command() -> None:
    """Users, passwords and rules that Redis needs."""


@redis_command.command("acl")
@click.option("--pool", "pools", multiple=True, help="A pool of the installation. By default PARLEY_POOL.")
@click.option("--folder", type=click.Path(path_type=Path), help="By default PARLEY_HOME/access.")
@click.option(
    "--url",
    callback=url_option(REDIS_URLS, "rediss://host:6379/0"),
    help="Where Redis is, as rediss://host:6379/0: <user>.url then has it whole.",
)
@click.option("--set", "as_commands", is_flag=True, help="Print ACL SETUSER commands instead of the file.")
def acl_command(pools: tuple[str, ...], folder: Path | None, url: str | None, as_commands: bool) -> None:
    """Make one user for each kind of process, and for workers and supervisors one for each pool.

    The folder has each user's password (made once, mode 0600) and `users.acl`, which holds only their
    hashes: give it to every node as `aclfile`. Run it again after an upgrade or for a new pool, with all
    pools; passwords stay. docs/hardening.md goes through it.
    """
    settings = Settings()
    folder = access_folder(settings, folder)
    of = users(settings.installation, pools or [settings.pool])
    lines = acl_lines(of, {name: password_in(folder, name, url) for name in of})
    if as_commands:
        print_lines("\n".join(set_commands(lines)))
        print_line(f"next: run these on every node of Redis; {_then(folder, url)}", err=True)
        return
    acl = folder / "users.acl"
    write_whole(acl, "\n".join(lines) + "\n", PUBLIC)
    print_line(f"{acl} has {len(of)} users; their passwords lie beside it")
    print_line(
        f"next: give it to every node of Redis (aclfile, then ACL LOAD or a restart); {_then(folder, url)}"
    )


def _then(folder: Path, url: str | None) -> str:
    if url is None:
        return f"then each process comes in with {folder}/<user>.password (--url makes URLs of them)"
    return f"then each process gets its URL: PARLEY_REDIS_URL_FILE={folder}/parley-gateway.url, and so on"


@click.group("secrets")
def secrets_command() -> None:
    """Secrets that are made of the signing secret, for processes that do without it."""


@secrets_command.command("admission")
def admission_command() -> None:
    """Print PARLEY_ADMISSION_KEY, by which a biller knows what gateways admitted."""
    print_line(",".join(key.hex() for key in Settings().keyring.keys(ADMISSION_PURPOSE)))
