"""What the gateway measures. Labels come from enums only, never ids."""

from core.telemetry import meter

_meter = meter("server")

CONNECTIONS = _meter.create_up_down_counter(
    "parley_connections", description="WebSocket connections that are open"
)
CLOSES = _meter.create_counter("parley_closes", description="WebSocket closes by code")
FRAMES_IN = _meter.create_counter("parley_frames_in", description="Frames received by type")
FRAMES_OUT = _meter.create_counter("parley_frames_out", description="Frames sent by type")
BYTES_OUT = _meter.create_counter("parley_bytes_out", unit="By", description="Payload bytes sent")
TURNS = _meter.create_counter("parley_turns", description="Sends by outcome: accepted, dup or an error code")
PROMPT_TOKENS = _meter.create_histogram("parley_prompt_tokens", description="Token ids of an accepted prompt")
ACCEPT_SECONDS = _meter.create_histogram(
    "parley_accept_seconds", unit="s", description="From a send to its accepted"
)
CANCELS = _meter.create_counter("parley_cancels", description="Cancels by the state they met")
RESUMES = _meter.create_counter("parley_resumes", description="Hellos by outcome: full, partial, none")
LOG_READS = _meter.create_counter("parley_log_reads", description="Reads of a log, where hints did not do")
