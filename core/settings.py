"""Every setting of the platform, read once from PARLEY_* environment variables.

Decides nothing. A limit that anything in the code obeys has its name here (docs/operations.md lists them).
"""

import secrets
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from core.addresses import Networks, networks
from core.bounds import (
    Fraction,
    Milliseconds,
    MillisecondsOrNone,
    Pause,
    PauseOrNone,
    Port,
    Rate,
    Seconds,
    SecondsOrNone,
    Some,
    SomeOrNone,
    Weight,
)
from core.comma_list import split_list
from core.errors import StartupError
from core.hosts import Hosts, require_hosts
from core.secret_files import SecretFileSource, secret_names
from core.signed_text import SECRET_BYTES_MIN, Keyring, checked_secret
from core.variables import EnvironmentSource

ADMISSION_PURPOSE = b"parley admission v1"


class Settings(BaseSettings):
    """One process's settings. Field `port` is read from PARLEY_PORT, and so on; one that is secret also from
    the file that PARLEY_…_FILE names."""

    model_config = SettingsConfigDict(env_prefix="PARLEY_", extra="ignore", hide_input_in_errors=True)

    home: Path = Field(default_factory=lambda: Path.home() / ".parley")
    redis_url: SecretStr | None = None
    worker_redis_url: SecretStr | None = None
    redis_ca_file: Path | None = None
    redis_cert_file: Path | None = None
    redis_key_file: Path | None = None
    redis_maxmemory_mib: Some = 1024
    database_url: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Port = 8080
    console_host: str = "127.0.0.1"
    console_port: Port | None = None
    allowed_hosts: str = ""
    public_origins: str = ""
    tls: Literal["auto", "on"] = "auto"
    trusted_proxies: str = "127.0.0.1,::1"
    log_format: str = "console"
    log_level: str = "info"
    otlp_endpoint: SecretStr | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: Port | None = None
    secret: SecretStr | None = None
    secret_old: SecretStr | None = None
    admission_key: SecretStr | None = None

    installation: str = "parley"
    pool: str = "default"
    node: str = "local"
    model: str = "smollm2"

    # Session protocol (docs/protocol.md)
    hello_seconds_max: Pause = 10.0
    heartbeat_interval_ms: Milliseconds = 25_000
    heartbeat_timeout_ms: Milliseconds = 10_000
    window_events: Some = 256
    window_bytes: Some = 32 * 1024
    window_connection_bytes: Some = 128 * 1024
    frame_bytes_max: Some = 256 * 1024
    control_frame_bytes_max: Some = 4 * 1024
    requests_per_connection_max: Some = 16
    connections_per_key_max: Some = 100
    connections_per_user_max: Some = 20
    bad_messages_per_minute_max: SomeOrNone = 10
    write_blocked_seconds_max: Pause = 10.0
    delta_interval_ms: MillisecondsOrNone = 20
    paused_seconds: PauseOrNone = 2.0
    stuck_seconds: PauseOrNone = 30.0
    stuck_tokens: SomeOrNone = 4096
    park_seconds_max: SecondsOrNone = 600
    drain_seconds_max: PauseOrNone = 30.0
    access_seconds: Seconds = 3600
    auth_notice_seconds: PauseOrNone = 60.0
    key_check_seconds: Pause = 15.0
    connection_lease_seconds: Pause = 15.0
    deflate: bool = False
    poll_interval_seconds: Pause = 1.0
    ticket_seconds: Seconds = 60
    cookie_seconds: Seconds = 12 * 3600
    sessions_per_user_max: Some = 20
    sessions_per_key_max: Some = 1_000
    resume_seconds: Seconds = 15 * 60
    id_age_seconds_max: Seconds = 24 * 3600
    id_ahead_seconds_max: SecondsOrNone = 5 * 60
    prompt_messages_max: Some = 1024
    deleted_keep_seconds: SecondsOrNone = 600
    backups_kept_days: SomeOrNone | None = None
    refusals_kept_days: Some = 30

    # How often one may ask, a gateway or console (docs/operations.md); 0 is no limit
    silent_sockets_per_address_max: SomeOrNone = 200
    silent_sockets_max: SomeOrNone = 4096
    calls_per_address_per_second: Rate = 100.0
    sockets_per_address_per_second: Rate = 100.0
    signins_per_address_per_minute: Rate = 300.0
    failed_signins_per_address_per_minute: Rate = 20.0
    signins_per_caller_per_minute: Rate = 120.0
    calls_per_caller_per_second: Rate = 100.0
    sends_per_caller_per_second: Rate = 100.0
    asks_per_caller_per_second: Rate = 200.0
    frames_per_connection_per_second: Rate = 500.0
    prompt_characters_per_tenant_per_second: Rate = 2_000_000.0
    prompt_characters_max: Some = 1_000_000

    # Queue and log (docs/architecture.md)
    entry_bytes_max: Some = 16 * 1024
    queue_requests_max: Some = 10_000
    queue_requests_per_tenant_max: Some = 1_000
    maxmemory_fraction_max: Fraction = 0.85
    worker_lease_ms: Milliseconds = 3_000
    gateway_lease_ms: Milliseconds = 3_000
    reap_interval_ms: Milliseconds = 250
    claim_picks_max: Some = 16
    readers_per_request_max: Some = 8
    log_keep_seconds: Seconds = 600
    unrecorded_log_keep_seconds: Seconds = 24 * 3600
    deadline_interactive_ms: Milliseconds = 600_000
    deadline_standard_ms: Milliseconds = 600_000
    deadline_bulk_ms: Milliseconds = 24 * 3600 * 1000
    no_worker_seconds_max: SecondsOrNone = 120
    chunk_tokens: Some = 256
    deaths_max: Some = 4
    fair_prompt_weight: Weight = 1.0
    fair_output_weight: Weight = 2.0
    fair_delta_tokens: SomeOrNone = 0
    age_standard_ms: MillisecondsOrNone = 30_000
    age_bulk_ms: MillisecondsOrNone = 120_000
    tenant_reserves_max: SomeOrNone = 64
    reserve_interactive_tokens: SomeOrNone = 0
    reserve_standard_tokens: SomeOrNone = 0
    terms_seconds: Pause = 10.0

    # Tenants (docs/operations.md)
    keys_per_tenant_max: Some = 1_000
    projects_per_tenant_max: Some = 1_000
    users_per_tenant_max: Some = 100_000
    noisy_neighbours: Literal["off", "propose", "throttle"] = "propose"
    noisy_check_seconds: Pause = 30.0

    # Money (docs/operations.md)
    correction_unasked_cents_max: SomeOrNone = 100
    unbilled_share_max: Fraction = 0.001
    correction_cents_max: SomeOrNone = 10_000
    second_person: str | None = None
    second_person_secret: SecretStr | None = None

    # Proof (docs/operations.md)
    audit_heads: str = ""
    audit_heads_seconds: Seconds = 3600
    audit_heads_key: SecretStr | None = None
    audit_s3_url: str | None = None
    audit_s3_region: str = "us-east-1"
    audit_s3_key_id: str | None = None
    audit_s3_secret: SecretStr | None = None

    # Usage API, a console (docs/operations.md)
    usage_seconds_max: Pause = 10.0
    usage_reads_max: Some = 4
    usage_reads_per_tenant_max: Some = 2
    usage_reads_per_tenant_per_minute: Rate = 120.0

    # Alerts (docs/operations.md)
    smtp_host: str | None = None
    smtp_port: Port = 587
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str | None = None
    smtp_password: SecretStr | None = None
    smtp_from: str | None = None
    alert_private_targets: bool = False

    # Worker
    worker_slots: Some = 32
    worker_threads: SomeOrNone | None = None
    worker_kv_mib: Some = 512
    worker_max_model_len: SomeOrNone | None = None
    worker_batched_tokens: SomeOrNone = 0
    worker_dtype: str = "auto"
    worker_flush_ms: MillisecondsOrNone = 20
    worker_start_seconds_max: Seconds = 1800
    journal_mib_max: SomeOrNone = 64
    worker_first_token_target_ms: Milliseconds = 2_000
    worker_step_target_ms: Milliseconds = 1_000
    meter_cpu: bool = False

    @field_validator("home")
    @classmethod
    def absolute(cls, home: Path) -> Path:
        """A relative PARLEY_HOME means the same folder in every child process."""
        return home.expanduser().absolute()

    @cached_property
    def redis_endpoint(self) -> str:
        """Where Redis is: PARLEY_REDIS_URL, else the embedded Valkey's socket under PARLEY_HOME."""
        if self.redis_url:
            return self.redis_url.get_secret_value()
        return f"unix://{self.home / 'redis' / 'redis.sock'}"

    def secrets(self) -> dict[str, str]:
        """Those that are set, in the open, by field."""
        found = {name: getattr(self, name) for name in secret_names(type(self))}
        return {name: secret.get_secret_value() for name, secret in found.items() if secret}

    @property
    def redis_shown(self) -> str:
        """Where Redis is, without a password: for people and logs."""
        scheme, _, rest = self.redis_endpoint.rpartition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

    @cached_property
    def database_endpoint(self) -> str:
        """SQLAlchemy's async URL: PARLEY_DATABASE_URL, else SQLite under PARLEY_HOME."""
        if not self.database_url:
            return f"sqlite+aiosqlite:///{self.home / 'parley.db'}"
        url = self.database_url.get_secret_value()
        for plain in ("postgres://", "postgresql://"):
            if url.startswith(plain):
                return "postgresql+asyncpg://" + url[len(plain) :]
        return url

    @cached_property
    def proxies(self) -> Networks:
        """PARLEY_TRUSTED_PROXIES: the proxies whose word about a caller's address counts."""
        return networks(self.trusted_proxies, "PARLEY_TRUSTED_PROXIES")

    def hosts(self, bind: str) -> Hosts:
        """The names that a process which listens on `bind` is called by."""
        return Hosts(self.allowed_hosts, bind, self.public_origins)

    @cached_property
    def console_endpoint_port(self) -> int:
        """The console's port: PARLEY_CONSOLE_PORT, else the gateway's plus one."""
        return self.console_port if self.console_port is not None else self.port + 1

    @cached_property
    def keyring(self) -> Keyring:
        """What signs resume tokens, tickets and cookies: PARLEY_SECRET, else PARLEY_HOME/secret (made at the
        first use, mode 0600). All gateways and consoles of one installation must share it."""
        old = self.secret_old
        return Keyring(
            self._secret(), checked_secret(old.get_secret_value(), "PARLEY_SECRET_OLD") if old else None
        )

    @cached_property
    def admission_keys(self) -> list[bytes]:
        """What opens the seals of admissions, current first: PARLEY_ADMISSION_KEY (one or two, with a comma),
        which a biller has in place of the secret that makes them, else of that secret."""
        if self.admission_key:
            try:
                keys = [bytes.fromhex(each) for each in split_list(self.admission_key.get_secret_value())]
            except ValueError:
                keys = []
            if not keys or any(len(key) != SECRET_BYTES_MIN for key in keys):
                raise StartupError(
                    "PARLEY_ADMISSION_KEY is what `parley secrets admission` prints where gateways run"
                )
            return keys
        if self.database_url and not self.secret and not (self.home / "secret").exists():
            raise StartupError(
                "a biller needs PARLEY_ADMISSION_KEY: `parley secrets admission` prints it where gateways run"
            )
        return self.keyring.keys(ADMISSION_PURPOSE)

    @property
    def shared_keyring(self) -> Keyring:
        """The keyring, for a command whose seals gateways must know. StartupError where it would be new."""
        if self.database_url and not self.secret and not (self.home / "secret").exists():
            raise StartupError("this command needs PARLEY_SECRET, the same as the gateways'")
        return self.keyring

    def require_edge(self) -> None:
        """StartupError now, and not at the first call, where a process that people reach cannot work: the
        secret is missing or too short, or a list of hosts, origins or proxies holds what is none."""
        _ = self.keyring, self.proxies
        require_hosts(self.allowed_hosts, self.public_origins)

    def _secret(self) -> bytes:
        if self.secret:
            return checked_secret(self.secret.get_secret_value(), "PARLEY_SECRET")
        path = self.home / "secret"
        try:
            if not path.exists():
                self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft = path.with_name(f"secret.{secrets.token_hex(4)}")
                draft.touch(mode=0o600)
                draft.write_text(secrets.token_hex(32))
                try:
                    path.hardlink_to(draft)
                except FileExistsError:
                    pass
                finally:
                    draft.unlink()
            return checked_secret(path.read_text().strip(), str(path))
        except OSError as error:
            raise StartupError(f"cannot read or make {path}: {error.strerror}") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What pydantic-settings asks: arguments, then variables, then files that variables name."""
        return init_settings, EnvironmentSource(settings_cls), SecretFileSource(settings_cls)
