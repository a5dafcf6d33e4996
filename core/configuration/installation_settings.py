"""Settings of an installation: stores, binds, names, secrets, logs. Part of `Settings` in settings.py.

A text under a setting is its sentence in docs/settings.md; a line of comment begins a section there.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from core.configuration.bounds import Port, Some, SomeOrNone
from core.configuration.settings_part import SettingsPart


class InstallationSettings(SettingsPart):
    """Settings that are the same for each process of one installation."""

    # Files and stores
    home: Path = Field(default_factory=lambda: Path.home() / ".parley")
    """Folder of everything that an installation keeps on this machine, of mode 0700."""
    redis_url: SecretStr | None = None
    """Redis or Valkey: `redis://`, `rediss://` (TLS), `unix://`, `redis+cluster://` or `rediss+cluster://`;
    unset: the embedded Valkey's socket under `PARLEY_HOME`."""
    worker_redis_url: SecretStr | None = None
    """Redis as a supervisor's workers reach it, with a user of their own; unset: by the supervisor's URL."""
    redis_ca_file: Path | None = None
    """File of certificate authorities (PEM) that Redis' certificate is checked by; unset: the system's."""
    redis_cert_file: Path | None = None
    """File of our certificate (PEM), where Redis asks for one."""
    redis_key_file: Path | None = None
    """File of the private key (PEM) of that certificate."""
    redis_maxmemory_mib: Some = 1024
    """Memory in MiB that the embedded Valkey may take; another server has its own `maxmemory`."""
    database_url: SecretStr | None = None
    """Postgres, as `postgresql://…`; unset: SQLite in `PARLEY_HOME`/parley.db."""
    pg_tools: Path | None = None
    """Folder of Postgres' `pg_dump` and `pg_restore`, as new as the server or newer, for `parley backup` and
    `parley restore`; unset: the server's own folder, then `PATH` and `/usr/lib/postgresql/*/bin`."""

    # Binds, names and proxies
    host: str = "127.0.0.1"
    """Address that a gateway listens on."""
    port: Port = 8080
    """Port of a gateway; 0 takes any free one."""
    console_host: str = "127.0.0.1"
    """Address that the console listens on; its page is for operators."""
    console_port: Port | None = None
    """Port of the console; 0 takes any free one, unset is `PARLEY_PORT` + 1."""
    portal_host: str = "127.0.0.1"
    """Address that the console for tenants listens on."""
    portal_port: Port | None = None
    """Port of the console for tenants; 0 takes any free one, unset is `PARLEY_PORT` + 2."""
    allowed_hosts: str = ""
    """Names besides our own that a request's `Host` may have, with commas: `chat.example.org,*.example.net`,
    or `*` for every name; empty: only our own names where the bind is loopback, every name elsewhere."""
    public_origins: str = ""
    """Origins of other sites whose pages may call, with commas: `https://chat.example.org`."""
    gateway_url: str = ""
    """URL at which customers reach the gateways, like `https://api.example.org`, which links and examples in
    pages name; unset: that of this machine."""
    portal_url: str = ""
    """URL at which tenants' members reach their portal, like `https://portal.example.org`, which invitations
    name; unset: that of this machine."""
    tls: Literal["auto", "on"] = "auto"
    """Use of TLS by browsers: `auto` believes the socket or a trusted proxy, `on` says yes where the proxy
    does not tell; sign-in cookies and `Strict-Transport-Security` go by it."""
    trusted_proxies: str = "127.0.0.1,::1"
    """Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count, with commas;
    empty: none."""

    # Logs, traces and metrics
    log_format: str = "console"
    """Form of log lines: `json` is one object a line, anything else is for people."""
    log_level: str = "info"
    """Least level that is logged: `debug`, `info`, `warning` or `error`."""
    otlp_endpoint: SecretStr | None = None
    """Base URL of an OpenTelemetry collector (OTLP over HTTP), to which `/v1/traces` is added; unset: no
    traces."""
    metrics_host: str = "127.0.0.1"
    """Address that `/metrics`, `/healthz` and `/readyz` of each process listen on."""
    metrics_port: Port | None = None
    """Port of a supervisor's metrics: its workers' are the ports after it, a biller's is 100 above, a
    gateway's 101, the console's 102, the fleet's 104; unset: none are served, but `parley up` takes
    `PARLEY_PORT` + 1000."""

    # Secrets
    secret: SecretStr | None = None
    """Secret that signs sessions, tickets, cookies and admissions, of 32 bytes or more, the same for all
    gateways and consoles; unset: `PARLEY_HOME`/secret, made at the first use."""
    secret_old: SecretStr | None = None
    """Secret that was in force before, while it is being changed: it opens what it signed, and signs
    nothing."""
    admission_key: SecretStr | None = None
    """Key that a biller checks admissions by, in place of the secret: `parley secrets admission` prints it;
    two with a comma while the secret is being changed."""

    # Names
    installation: str = "parley"
    """Name of the installation, by which its processes find its pools in a Redis that others use too."""
    pool: str = "default"
    """Pool of a worker, of a supervisor and of commands that take none, and a gateway's first one."""
    node: str = "local"
    """Name of this machine, with which names of its processes begin; supervisors of one node share its
    GPUs."""
    node_labels: str = ""
    """Labels of this machine, `NAME=VALUE` with commas, by which pools choose machines."""
    fleet_workers_max: SomeOrNone = 0
    """Workers that `parley fleet` runs on this machine at most; 0: one a GPU, without GPUs two a core."""
    model: str = "smollm2"
    """Model of a pool that `parley up` makes, of a worker whose pool has no row, and the one that answers
    where a `send` names none and the gateway's pool has no row."""
