"""The door of this package: what the server, the console and chaos may import from engine."""

from engine.backends.environment import restarted_with as restarted_with_engine_environment
from engine.ending import EndFacts, Ending, end_payload, end_unclaimed, text_hash
from engine.explain import Explained
from engine.explain import explain as explain_request
from engine.hints import Hints, WorkerWakes
from engine.interrupted import Ask, Given, Interrupted
from engine.journal.frames import End as JournaledEnd
from engine.journal.journal import Journal, journal_of
from engine.journal.keeper import Keeper
from engine.log import DamagedLogError, LogReader, visible_text
from engine.models.provision import prepare as prepare_model
from engine.models.provision import register as register_model
from engine.models.registry import ModelRecord, list_models
from engine.models.registry import resolve as resolve_model
from engine.mover import Mover, MoveReason, MoveRefused
from engine.orders import Order, Orders
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
    sealed,
)
from engine.response_format import checked as checked_format
from engine.response_format import shape_of, uses_patterns
from engine.trials.asking import Trials

__all__ = [
    "Append",
    "AppendCode",
    "Appended",
    "Ask",
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
    "Explained",
    "Given",
    "Hint",
    "Hints",
    "Interrupted",
    "Journal",
    "JournaledEnd",
    "Keeper",
    "LogReader",
    "ModelRecord",
    "MoveReason",
    "MoveRefused",
    "Moved",
    "Mover",
    "Offer",
    "Order",
    "Orders",
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
    "Trials",
    "View",
    "WorkerView",
    "WorkerWakes",
    "checked_format",
    "end_payload",
    "end_unclaimed",
    "explain_request",
    "input_decoder",
    "input_encoder",
    "journal_of",
    "list_models",
    "prepare_model",
    "register_model",
    "resolve_model",
    "restarted_with_engine_environment",
    "sealed",
    "shape_of",
    "text_hash",
    "uses_patterns",
    "visible_text",
]
