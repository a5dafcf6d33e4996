"""Every setting of the platform, read once from PARLEY_* environment variables.

Decides nothing. Each stands with its sentence in one of the parts that this is composed of; docs/settings.md
lists them.
"""

import secrets
from functools import cached_property
from pathlib import Path

from pydantic import field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from core.configuration.billing_settings import BillingSettings
from core.configuration.gateway_settings import GatewaySettings
from core.configuration.installation_settings import InstallationSettings
from core.configuration.queue_settings import QueueSettings
from core.configuration.variables import EnvironmentSource
from core.errors import StartupError
from core.files.secret_files import SecretFileSource, secret_names
from core.network.addresses import Networks, networks
from core.network.comma_list import split_list
from core.network.hosts import Hosts, require_hosts, require_urls
from core.signing.signed_text import SECRET_BYTES_MIN, Keyring, checked_secret

ADMISSION_PURPOSE = b"parley admission v1"


class Settings(InstallationSettings, GatewaySettings, QueueSettings, BillingSettings, BaseSettings):
    """One process's settings. Field `port` is read from PARLEY_PORT, and so on; one that is secret also from
    the file that PARLEY_…_FILE names."""

    # Built when a process first reads settings, so that commands which only print help do without.
    model_config = SettingsConfigDict(
        env_prefix="PARLEY_", extra="ignore", hide_input_in_errors=True, defer_build=True
    )

    @field_validator("home")
    @classmethod
    def absolute(cls, home: Path) -> Path:
        """A relative PARLEY_HOME means the same folder in every child process."""
        return home.expanduser().absolute()

    @cached_property
    def redis_endpoint(self) -> str:
        """Address of Redis: PARLEY_REDIS_URL, else the embedded Valkey's socket under PARLEY_HOME."""
        if self.redis_url:
            return self.redis_url.get_secret_value()
        return f"unix://{self.home / 'redis' / 'redis.sock'}"

    def secrets(self) -> dict[str, str]:
        """Secret settings that are set, field → plain text."""
        found = {name: getattr(self, name) for name in secret_names(type(self))}
        return {name: secret.get_secret_value() for name, secret in found.items() if secret}

    @property
    def redis_shown(self) -> str:
        """Address of Redis without a password, for people and logs."""
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
        """Networks of PARLEY_TRUSTED_PROXIES: proxies whose word about a caller's address counts."""
        return networks(self.trusted_proxies, "PARLEY_TRUSTED_PROXIES")

    def hosts(self, bind: str) -> Hosts:
        """Names that a process which listens on `bind` is called by."""
        return Hosts(self.allowed_hosts, bind, self.public_origins)

    @cached_property
    def console_endpoint_port(self) -> int:
        """The console's port: PARLEY_CONSOLE_PORT, else the gateway's plus one."""
        return self.console_port if self.console_port is not None else self.port + 1

    @cached_property
    def portal_endpoint_port(self) -> int:
        """The port of the console for tenants: PARLEY_PORTAL_PORT, else the gateway's plus two."""
        return self.portal_port if self.portal_port is not None else self.port + 2

    @cached_property
    def keyring(self) -> Keyring:
        """The keys that sign resume tokens, tickets and cookies, from PARLEY_SECRET, else PARLEY_HOME/secret
        (made at the first use, mode 0600). All gateways and consoles of one installation must share it."""
        old = self.secret_old
        return Keyring(
            self._secret(), checked_secret(old.get_secret_value(), "PARLEY_SECRET_OLD") if old else None
        )

    @cached_property
    def admission_keys(self) -> list[bytes]:
        """Keys that check the seals of admissions, current first: PARLEY_ADMISSION_KEY (one or two, with a
        comma) at a biller, which has no secret, else derived from the secret. Raises StartupError where
        neither is usable."""
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

    @property
    def secret_text(self) -> str:
        """The secret in force, for a copy of the installation. StartupError where there is none yet."""
        if not self.secret and not (self.home / "secret").exists():
            raise StartupError(
                f"there is no secret: set PARLEY_SECRET as gateways have it, or write {self.home}/secret"
            )
        return self._secret().decode()

    def require_edge(self) -> None:
        """Check at the start what a process that people reach needs, not at the first call. Raises
        StartupError where the secret is missing or too short, a list of hosts, origins or proxies has a wrong
        entry, or a URL is none."""
        _ = self.keyring, self.proxies
        require_hosts(self.allowed_hosts, self.public_origins)
        require_urls(PARLEY_GATEWAY_URL=self.gateway_url, PARLEY_PORTAL_URL=self.portal_url)

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
        """Sources in order of precedence: arguments, then variables, then files that variables name."""
        return init_settings, EnvironmentSource(settings_cls), SecretFileSource(settings_cls)
