"""Settings of a gateway: sessions, sign-ins, rates. Part of `core.configuration.settings.Settings`.

A text under a setting is its sentence in docs/settings.md; a line of comment begins a section there.
"""

from core.configuration.bounds import (
    Milliseconds,
    MillisecondsOrNone,
    Pause,
    PauseOrNone,
    Rate,
    Seconds,
    SecondsOrNone,
    Some,
    SomeOrNone,
)
from core.configuration.settings_part import SettingsPart


class GatewaySettings(SettingsPart):
    """Times, sizes and rates of sessions, sign-ins and calls."""

    # Session protocol
    hello_seconds_max: Pause = 10.0
    """Seconds within which a new connection says `hello`, else it is closed 4502."""
    heartbeat_interval_ms: Milliseconds = 25_000
    """Milliseconds between two pings of a gateway, give or take a fifth."""
    heartbeat_timeout_ms: Milliseconds = 10_000
    """Milliseconds within which a ping is answered, else the connection is closed 4012."""
    window_events: Some = 256
    """Log entries of one request that may be sent and not acknowledged; a client may ask for fewer."""
    window_bytes: Some = 32 * 1024
    """Bytes of text of one request that may be sent and not acknowledged; a client may ask for fewer."""
    window_connection_bytes: Some = 128 * 1024
    """Bytes of text of all requests of a connection that may be sent and not acknowledged."""
    frame_bytes_max: Some = 256 * 1024
    """Bytes of the largest frame that a client may send, else the connection is closed 4509."""
    control_frame_bytes_max: Some = 4 * 1024
    """Bytes of the largest frame that is no `send`; a larger one is `bad_message`."""
    requests_per_connection_max: Some = 16
    """Requests open on one connection at once; one more is `rate_limited`."""
    connections_per_key_max: Some = 100
    """Connections of one API key at once, over all gateways; one more is closed 4505."""
    connections_per_user_max: Some = 20
    """Connections of one user of a key at once, over all gateways; one more is closed 4505."""
    bad_messages_per_minute_max: SomeOrNone = 10
    """Bad messages within a minute that end a connection (4500); at 0 or 1 the first does."""
    write_blocked_seconds_max: Pause = 10.0
    """Seconds that a socket may take nothing of what is written to it, else it is closed 4008."""
    delta_interval_ms: MillisecondsOrNone = 20
    """Least milliseconds between two deltas of a request on a connection; 0 sends each as it comes."""
    paused_seconds: PauseOrNone = 2.0
    """Seconds that a window is shut while the log has more until its reader is told `paused`; 0: at once."""
    stuck_seconds: PauseOrNone = 30.0
    """Seconds without an acknowledgement, where one is due, after which a reader is stuck; 0: at once."""
    stuck_tokens: SomeOrNone = 4096
    """Tokens that a paused reader may be behind before it is stuck; 0: none."""
    park_seconds_max: SecondsOrNone = 600
    """Seconds that a request is parked for stuck readers until it counts as having none; 0: until the next
    look of a reaper."""
    drain_seconds_max: PauseOrNone = 30.0
    """Seconds that a stopping gateway gives its clients to go on elsewhere; 0 closes them at once."""
    poll_interval_seconds: Pause = 1.0
    """Seconds without news of a request that is read after which a gateway looks at its log by itself."""
    deflate: bool = False
    """Offer permessage-deflate: a third of the traffic, for 50 KiB a connection and twice the CPU."""

    # Access and sign-in
    access_seconds: Seconds = 3600
    """Seconds that a ticket's bearer may stay connected; at most 3600 count."""
    auth_notice_seconds: PauseOrNone = 60.0
    """Seconds before the end of access at which a client is asked for a fresh token; 0: at the end."""
    key_check_seconds: Pause = 15.0
    """Seconds between two looks at whether the keys of open connections are still good; a revoked key is
    news, which comes within a second besides."""
    connection_lease_seconds: Pause = 15.0
    """Seconds after which a dead gateway's connections no longer count against their key and user."""
    ticket_seconds: Seconds = 60
    """Seconds within which a ticket is shown, once; at most 60 count."""
    cookie_seconds: Seconds = 12 * 3600
    """Seconds that a browser stays signed in."""
    sessions_per_user_max: Some = 20
    """Signed-in browsers of one user in a project; one more signs out the one that was used longest ago."""
    sessions_per_key_max: Some = 1_000
    """Signed-in browsers of one API key with its rotations; one more signs out the one that was used longest
    ago."""
    resume_seconds: Seconds = 15 * 60
    """Seconds after its last connection that a session can be resumed."""

    # Requests and conversations
    id_age_seconds_max: Seconds = 24 * 3600
    """Seconds that the time in a request's id (a UUIDv7) may lie back."""
    id_ahead_seconds_max: SecondsOrNone = 5 * 60
    """Seconds that the time in a request's id may lie ahead of the server's clock; 0: none."""
    prompt_messages_max: Some = 1024
    """Messages of a prompt, history included."""
    prompt_characters_max: Some = 1_000_000
    """Characters of a prompt, history included; a longer one is `too_large`."""
    answer_tokens: Some = 2048
    """Most tokens of an answer whose sender gives no `max_tokens`; a model, plan, tenant and project may
    have less, a model more (`parley models answers`)."""
    deleted_keep_seconds: SecondsOrNone = 600
    """Seconds after which a deleted conversation's texts are erased; 0: at the next look, half a minute later
    at most. Nobody reads it from the moment of its deletion."""
    backups_kept_days: SomeOrNone | None = None
    """Days that your backups last, which commands that erase print; 0: there are none, unset: unknown."""
    refusals_kept_days: Some = 30
    """Days that counts of refusals are kept."""
    refusal_hours_kept_days: Some = 400
    """Days that their sums by the hour and limit are kept, of which months are added up."""

    # How often one may ask a gateway or console
    silent_sockets_per_address_max: SomeOrNone = 200
    """Sockets of one address that have not shown who they are; 0 is no limit."""
    silent_sockets_max: SomeOrNone = 4096
    """Sockets in all that have not shown who they are, at most a quarter of the files that may be open; 0:
    that quarter."""
    calls_per_address_per_second: Rate = 100.0
    """HTTP calls a second of one address, before it is known who calls; 0 is no limit."""
    sockets_per_address_per_second: Rate = 100.0
    """New WebSockets a second of one address; 0 is no limit."""
    signins_per_address_per_minute: Rate = 300.0
    """Sign-ins of browsers a minute of one address; 0 is no limit."""
    failed_signins_per_address_per_minute: Rate = 20.0
    """Wrong keys, tickets, links and codes a minute of one address, after which the next wrong one has to
    wait; 0 is no limit."""
    signins_per_caller_per_minute: Rate = 120.0
    """Browsers a minute that one key signs in by itself; 0 is no limit."""
    calls_per_caller_per_second: Rate = 100.0
    """HTTP calls a second of one key, or of one user behind a ticket; 0 is no limit."""
    sends_per_caller_per_second: Rate = 100.0
    """Sends a second of one key, or of one user behind a ticket; 0 is no limit."""
    asks_per_caller_per_second: Rate = 200.0
    """Hellos (with each request they resume), attaches, cancels and fresh tokens a second of one key, or of
    one user behind a ticket; 0 is no limit."""
    frames_per_connection_per_second: Rate = 500.0
    """Frames a second that are read of one connection, the others wait in its socket; 0 is no limit."""
    prompt_characters_per_tenant_per_second: Rate = 2_000_000.0
    """Characters a second of one tenant's prompts that are made into tokens; 0 is no limit."""
