"""The door of this package: what the server, the console and chaos may import from engine."""

from engine.backends.environment import restarted_with as restarted_with_engine_environment
from engine.grammar.response_format import checked as checked_format
from engine.grammar.response_format import shape_of, uses_patterns
from engine.journal.journal import Journal, journal_of
from engine.journal.keeper import Keeper
from engine.lifecycle.finish import EndFacts, Ending, end_payload, end_unclaimed, text_hash
from engine.lifecycle.migration import Mover, MoveReason, MoveRefused
from engine.lifecycle.reaper import Reaper
from engine.models.provision import prepare as prepare_model
from engine.models.provision import register as register_model
from engine.models.registry import ModelRecord, list_models
from engine.models.registry import resolve as resolve_model
from engine.operations.explain import Explained
from engine.operations.explain import explain as explain_request
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import End as JournaledEnd
from engine.queue.migration_orders import Order, Orders
from engine.queue.notifications import Hints, WorkerWakes
from engine.queue.request_log import DamagedLogError, LogReader, visible_text
from engine.queue.types import (
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
from engine.trials.client import Trials
from engine.worker.interrupted import Ask, Given, Interrupted

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
