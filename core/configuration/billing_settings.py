"""Settings of tenants, money and alerts. Part of `core.configuration.settings.Settings`.

A text under a setting is its sentence in docs/settings.md; a line of comment begins a section there.
"""

from typing import Literal

from pydantic import SecretStr

from core.configuration.bounds import Fraction, Pause, Port, Rate, Seconds, Some, SomeOrNone
from core.configuration.settings_part import SettingsPart


class BillingSettings(SettingsPart):
    """Counts that a tenant may have, amounts that one person may move, places of proof and alerts."""

    # Tenants
    keys_per_tenant_max: Some = 1_000
    """API keys of one tenant that are neither revoked nor expired."""
    origins_per_key_max: Some = 20
    """Origins of web pages that one API key may be restricted to."""
    projects_per_tenant_max: Some = 1_000
    """Open projects of one tenant."""
    users_per_tenant_max: Some = 100_000
    """Open users of one tenant; one more is refused until another is closed."""
    people_per_tenant_max: Some = 1_000
    """Members of one tenant, or of the platform's staff, who have not ended."""
    tokens_per_tenant_max: Some = 100
    """Service tokens of one tenant, or of the platform, that are neither revoked nor expired."""
    noisy_neighbours: Literal["off", "propose", "throttle"] = "propose"
    """Response to a tenant that takes far more of a pool than its share while others wait: `propose` only
    reports it, `throttle` holds it to its share at once, `off` does not look."""
    noisy_check_seconds: Pause = 30.0
    """Seconds between two looks for noisy neighbours."""

    # Money
    correction_unasked_cents_max: SomeOrNone = 100
    """US cents that a correction, refund or other move by hand books without `--yes`; 0: nothing."""
    correction_cents_max: SomeOrNone = 10_000
    """US cents that one person moves by hand at once; above it takes a second person, or is refused where
    there is none; 0: all takes one."""
    close_months_after_hours: SomeOrNone = 24
    """Hours after a month's end, in the tenant's time zone, at which a biller closes it; 0: only people close
    months (`parley prices close-period`)."""
    unbilled_share_max: Fraction = 0.001
    """Part of a pool's output tokens of the last day that may be lost or held back before operators are
    alerted, from above 0 to 1."""

    # Proof
    audit_heads: str = ""
    """Places outside the database that heads of chains are kept at, with commas: `file:///path`,
    `s3://bucket/prefix`, `syslog://host:601`, `syslog+tls://host:6514`, `syslog+udp://host:514`; empty:
    none."""
    audit_heads_seconds: Seconds = 3600
    """Seconds between two writings of heads."""
    audit_heads_key: SecretStr | None = None
    """Key of 32 bytes or more by which each kept head has a MAC; unset: none has."""
    audit_s3_url: str | None = None
    """Address of an S3 store that is not AWS, without a bucket; unset: AWS in the region below."""
    audit_s3_region: str = "us-east-1"
    """Region of the S3 store."""
    audit_s3_key_id: str | None = None
    """Id of the access key for the S3 store; `s3://` places need it."""
    audit_s3_secret: SecretStr | None = None
    """Secret of that access key."""

    # Usage API of a console
    usage_seconds_max: Pause = 10.0
    """Seconds after which the database ends a read of usage, which is answered 413."""
    usage_reads_max: Some = 4
    """Reads of usage that one console runs at once."""
    usage_reads_per_tenant_max: Some = 2
    """Reads of usage of one tenant that one console runs at once."""
    usage_reads_per_tenant_per_minute: Rate = 120.0
    """Pages of usage a minute of one tenant at one console; 0 is no limit."""

    # Alerts
    smtp_host: str | None = None
    """Mail server; unset: mail waits."""
    smtp_port: Port = 587
    """Port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """TLS to the mail server: `starttls` after a plain greeting, `tls` from the start, or `none`."""
    smtp_user: str | None = None
    """User at the mail server; unset: no sign-in."""
    smtp_password: SecretStr | None = None
    """Password of that user."""
    smtp_from: str | None = None
    """Sender of mails; unset: `parley@` and the mail server's name."""
    alert_private_targets: bool = False
    """Allow webhooks to private addresses and without TLS; for an installation whose tenants are its own
    people."""
