"""Postgres' own programs, pg_dump and pg_restore: which ones, what they are told of the connection, and their
runs.

Passwords reach them by the environment. A run ends with this process, however that dies.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import text

from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.environment import child_environment
from core.runtime.leash import spawn
from core.sql.database import Database, database_url

DEBIAN = Path("/usr/lib/postgresql")
VERSION_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.5
WORDS_MAX = 300
LOG_BYTES_READ = 64 << 10
WITHOUT = ("--no-owner", "--no-privileges", "--no-tablespaces", "--no-publications", "--no-subscriptions")
ROLES = {
    "pg_dump": "the role parley_operator, or the owner of the tables,",
    "pg_restore": "the owner of the database",
}
# libpq's variable of each part of a URL.
VARIABLES = {
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "database": "PGDATABASE",
    "passfile": "PGPASSFILE",
    "ssl": "PGSSLMODE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslsni": "PGSSLSNI",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "channel_binding": "PGCHANNELBINDING",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
}


class PostgresTools(NamedTuple):
    """A folder with pg_dump and pg_restore. `version`: theirs, as `18.1`."""

    folder: Path
    version: str


async def server_facts(db: Database) -> tuple[str, str | None]:
    """The server's version, and the folder of its programs where it may say so: it may be another
    machine's."""
    async with db.reading() as connection:
        version, allowed = (
            await connection.execute(
                text(
                    "SELECT current_setting('server_version'), has_table_privilege('pg_config', 'select') "
                    "AND has_function_privilege('pg_config()', 'execute')"
                )
            )
        ).one()
        folder = None
        if allowed:
            found = await connection.execute(text("SELECT setting FROM pg_config WHERE name = 'BINDIR'"))
            folder = found.scalar()
    return str(version), None if folder is None else str(folder)


def find_tools(
    settings: Settings, server_version: str, server_bindir: str | None, dumped_by: str = ""
) -> PostgresTools:
    """The tools that know this server: of its major version, else the next newer one that there is.
    `dumped_by`: version of the pg_dump that made a dump, which an older pg_restore cannot read.

    Raises StartupError, which says what is needed and where it was looked for. Blocks."""
    wanted = max(_major(server_version), _major(dumped_by))
    found = [
        PostgresTools(folder, version)
        for folder in _folders(settings, server_bindir)
        if (version := _version(folder))
    ]
    fit = [each for each in found if _major(each.version) >= wanted]
    if fit:
        return min(fit, key=lambda each: _major(each.version))  # of equal ones the first
    raise StartupError(_missing(settings, server_version, wanted, found))


async def dump(
    url: str, tools: PostgresTools, file: Path, snapshot: str, grown: Callable[[int], None] = lambda _: None
) -> None:
    """Write what a transaction that exported `snapshot` sees. `grown`: told of the file's size so far.
    Raises StartupError."""
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    argv = ["pg_dump", "--format=custom", "--compress=1", *WITHOUT, "--no-password"]
    await _run(url, tools, [*argv, f"--snapshot={snapshot}", f"--file={file}"], file, grown)


async def check_dump(tools: PostgresTools, file: Path) -> None:
    """Read every byte of a dump. Raises StartupError where one is missing or wrong."""
    await _run("", tools, ["pg_restore", "--file=/dev/null", str(file)], file)


async def put_back(url: str, tools: PostgresTools, file: Path, scratch: Path | None = None) -> None:
    """Write a dump's content into an empty database: all, or nothing where it fails or is killed. `scratch`:
    a folder for the programs' words, else the dump's. Raises StartupError."""
    argv = ["pg_restore", "--single-transaction", "--exit-on-error", *WITHOUT, "--no-password", "--dbname="]
    beside = file if scratch is None else scratch / file.name
    await _run(url, tools, [*argv, str(file)], beside)


def connection_variables(endpoint: str) -> dict[str, str]:
    """libpq's variables for a database URL as our driver takes it. StartupError where libpq has none."""
    url = database_url(endpoint)
    parts: Mapping[str, Any] = url.get_dialect()().create_connect_args(url)[1]
    if "sslpassword" in parts:
        raise StartupError("pg_dump is given no sslpassword: name a key without one in PARLEY_DATABASE_URL")
    found = {variable: str(parts[name]) for name, variable in VARIABLES.items() if parts.get(name)}
    for name, variable in (("host", "PGHOST"), ("port", "PGPORT")):
        if parts.get(name):
            value = parts[name]
            found[variable] = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return found


def _folders(settings: Settings, server_bindir: str | None) -> Iterator[Path]:
    """Where to look, in order."""
    if settings.pg_tools is not None:
        yield settings.pg_tools
        return
    if server_bindir:
        yield Path(server_bindir)
    yield from (Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each)
    yield from sorted(DEBIAN.glob("*/bin"))


def _version(folder: Path) -> str:
    """The version of a folder's tools; empty where one is missing or cannot be run."""
    if not all(shutil.which(name, path=str(folder)) for name in ("pg_dump", "pg_restore")):
        return ""
    try:
        said = subprocess.run(
            [str(folder / "pg_dump"), "--version"],
            env=child_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_SECONDS_MAX,
            check=True,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\(PostgreSQL\) (\d+[\w.]*)", said, re.ASCII)
    return found[1] if found else ""


def _missing(settings: Settings, server_version: str, wanted: int, found: Sequence[PostgresTools]) -> str:
    seen = ", ".join(f"{each.folder} ({each.version})" for each in found)
    needs = f"the database is Postgres {_major(server_version)}: pg_dump and pg_restore {wanted} are needed"
    if settings.pg_tools is not None:
        why = f"has those of {seen}" if found else "has neither"
        return f"{needs}, and PARLEY_PG_TOOLS ({settings.pg_tools}) {why}"
    looked = f"found {seen}" if found else f"found none in the server's folder, PATH or {DEBIAN}/*/bin"
    install = f"Install postgresql-client-{wanted}, or name a folder in PARLEY_PG_TOOLS"
    return f"{needs} (or newer); {looked}. {install}"


def _major(version: str) -> int:
    found = re.match(r"\d+", version, re.ASCII)
    return int(found[0]) if found else 0


async def _run(
    url: str,
    tools: PostgresTools,
    argv: Sequence[str],
    file: Path,
    grown: Callable[[int], None] | None = None,
) -> None:
    """Run one of the programs to its end. Its words are in a file beside `file` meanwhile."""
    log = file.with_name(f".{file.name}.log")
    ours = {name: value for name, value in os.environ.items() if name.startswith("PG")}
    environment = {**child_environment(os.environ), **ours, **(connection_variables(url) if url else {})}
    try:
        process = await spawn([str(tools.folder / argv[0]), *argv[1:]], environment, log)
        try:
            ended = asyncio.ensure_future(process.wait())
            while not (await asyncio.wait((ended,), timeout=LOOK_SECONDS))[0]:
                if grown is not None:
                    grown(os.stat(file).st_size)
        finally:
            process.kill()
            code = await process.wait()
        if code:
            raise StartupError(f"{argv[0]} failed: {_with_remedy(argv[0], _first_error(log))}")
    finally:
        log.unlink(missing_ok=True)


def _with_remedy(tool: str, said: str) -> str:
    """The program's words, and what to do where its role may do too little. Pure."""
    if "permission denied" not in said and "must be owner" not in said:
        return said
    return f"{said.rstrip('.')}. Name {ROLES[tool]} in PARLEY_DATABASE_URL for this command"


def _first_error(log: Path) -> str:
    """The program's first error, without the lines under it, which quote rows."""
    with log.open("rb") as words:
        lines = words.read(LOG_BYTES_READ).decode(errors="replace").splitlines()
    found = next((line for line in lines if "error:" in line), lines[0] if lines else "it said nothing")
    return found.partition("error: ")[2][:WORDS_MAX] or found[:WORDS_MAX]
