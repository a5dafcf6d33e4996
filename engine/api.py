"""The door of this package: what the server, the console and chaos may import from engine."""

from engine.ending import EndFacts, Ending, end_payload, end_unclaimed, text_hash
from engine.hints import Hints, WorkerWakes
from engine.log import DamagedLogError, LogReader, visible_text
from engine.models.provision import prepare as prepare_model
from engine.models.provision import register as register_model
from engine.models.registry import ModelRecord, list_models
from engine.models.registry import resolve as resolve_model
from engine.mover import Mover, MoveReason, MoveRefused
from engine.queue import PoolQueue
from engine.queue_types import (
    Append,
    AppendCode,
    Appended,
    Claim,
    Claims,
    Enqueue,
    Enqueued,
    Expired,
    Hint,
    Moved,
    Offer,
    ReaderState,
    Reaped,
    Renewed,
    TenantTerms,
    View,
    WorkerView,
)
from engine.reaper import Reaper
from engine.request import (
    Control,
    EndReason,
    Entry,
    EntryKind,
    PriorityClass,
    RequestInput,
    Sampling,
    Status,
    input_decoder,
    input_encoder,
)

__all__ = [
    "Append",
    "AppendCode",
    "Appended",
    "Claim",
    "Claims",
    "Control",
    "DamagedLogError",
    "EndFacts",
    "EndReason",
    "Ending",
    "Enqueue",
    "Enqueued",
    "Entry",
    "EntryKind",
    "Expired",
    "Hint",
    "Hints",
    "LogReader",
    "ModelRecord",
    "MoveReason",
    "MoveRefused",
    "Moved",
    "Mover",
    "Offer",
    "PoolQueue",
    "PriorityClass",
    "ReaderState",
    "Reaped",
    "Reaper",
    "Renewed",
    "RequestInput",
    "Sampling",
    "Status",
    "TenantTerms",
    "View",
    "WorkerView",
    "WorkerWakes",
    "end_payload",
    "end_unclaimed",
    "input_decoder",
    "input_encoder",
    "list_models",
    "prepare_model",
    "register_model",
    "resolve_model",
    "text_hash",
    "visible_text",
]
