"""Public interface of this package: what the server, the console and chaos may import from engine."""

from engine.backends.environment import restarted_with as restarted_with_engine_environment
from engine.fleet.next_steps import is_passing
from engine.fleet.states import read_states as read_pool_states
from engine.grammar.response_format import checked_format as checked_format
from engine.grammar.response_format import format_of, uses_patterns
from engine.journal.files import FILE_BYTES_MAX as JOURNAL_BYTES_MAX
from engine.journal.files import FOLDER as JOURNALS_FOLDER
from engine.journal.files import SUFFIX as JOURNAL_SUFFIX
from engine.journal.files import JournalSegments
from engine.journal.files import pool_of as pool_of_journal
from engine.journal.files import taken as taken_journal
from engine.journal.journal import Journal, make_journal
from engine.journal.keeper import JournalKeeper
from engine.lifecycle.finish import EndFacts, RequestEnd, end_payload, end_unclaimed, text_hash
from engine.lifecycle.migration import MigrationRefusalReason, MigrationRefused, Migrator
from engine.lifecycle.reaper import Reaper
from engine.models.provision import MANIFEST, named_model
from engine.models.provision import prepare as prepare_model
from engine.models.provision import register as register_model
from engine.models.registry import ModelRecord, all_versions, find_version, list_models, list_versions
from engine.models.registry import resolve as resolve_model
from engine.node.reports import WorkerProcessState
from engine.operations.explain import Explained
from engine.operations.explain import explain as explain_request
from engine.operations.live_pools import LiveClass, LivePool, LiveWorker, read_live_pools
from engine.operations.living import living_processes
from engine.operations.pool_questions import POOL_READS, WORKER_READS
from engine.operations.worker_rows import WorkerRow
from engine.policies.store import POLICIES_CHANGED, PolicyStore, policy_for
from engine.queue.client import DamagedRecordError, PoolQueue
from engine.queue.journaled_ends import PAYLOAD_BYTES_MAX, JournalContents
from engine.queue.journaled_ends import JournaledEnd as JournaledEnd
from engine.queue.journaled_ends import contents as journal_contents
from engine.queue.journaled_ends import frame as journal_frame
from engine.queue.migration_orders import MigrationOrder, MigrationOrders
from engine.queue.notifications import HintChannel, WorkerWakes
from engine.queue.pinned_policies import BUILT_IN as BUILT_IN_POLICIES
from engine.queue.pinned_policies import pinned as pinned_policy
from engine.queue.request_log import DamagedLogError, LogReader, visible_text
from engine.queue.script_replies import STRANGER
from engine.queue.types import (
    Append,
    AppendCode,
    Appended,
    Claim,
    ClaimOffer,
    ClaimReply,
    Enqueue,
    Enqueued,
    ExpiredRequest,
    Hint,
    MigratedTo,
    PinnedPolicy,
    ReaderState,
    ReaderView,
    Reaped,
    Renewed,
    ReplayCode,
    TenantTerms,
    WorkerView,
)
from engine.request import (
    Control,
    EndReason,
    Entry,
    EntryKind,
    PriorityClass,
    RequestInput,
    RequestStatus,
    Sampling,
    input_decoder,
    input_encoder,
    seal_request,
)
from engine.safety.cpu_budget import FilterTooDearError
from engine.safety.documents import DEFAULT_POLICY, PolicyDocument, PolicyError
from engine.safety.policy import CompiledPolicy
from engine.safety.policy import compiled as compiled_policy
from engine.safety.prompts import PromptBlock, PromptFlag, VettedPrompt
from engine.safety.prompts import vetted as vetted_prompt
from engine.safety.seam import TextSeam, seam_behind
from engine.safety.verdicts import Flag
from engine.trials.client import ShapeTrials
from engine.worker.interrupted import InterruptedAnswer, InterruptedEngine, InterruptedPrompt

__all__ = [
    "BUILT_IN_POLICIES",
    "DEFAULT_POLICY",
    "JOURNALS_FOLDER",
    "JOURNAL_BYTES_MAX",
    "JOURNAL_SUFFIX",
    "MANIFEST",
    "PAYLOAD_BYTES_MAX",
    "POLICIES_CHANGED",
    "POOL_READS",
    "STRANGER",
    "WORKER_READS",
    "Append",
    "AppendCode",
    "Appended",
    "Claim",
    "ClaimOffer",
    "ClaimReply",
    "CompiledPolicy",
    "Control",
    "DamagedLogError",
    "DamagedRecordError",
    "EndFacts",
    "EndReason",
    "Enqueue",
    "Enqueued",
    "Entry",
    "EntryKind",
    "ExpiredRequest",
    "Explained",
    "FilterTooDearError",
    "Flag",
    "Hint",
    "HintChannel",
    "InterruptedAnswer",
    "InterruptedEngine",
    "InterruptedPrompt",
    "Journal",
    "JournalContents",
    "JournalKeeper",
    "JournalSegments",
    "JournaledEnd",
    "LiveClass",
    "LivePool",
    "LiveWorker",
    "LogReader",
    "MigratedTo",
    "MigrationOrder",
    "MigrationOrders",
    "MigrationRefusalReason",
    "MigrationRefused",
    "Migrator",
    "ModelRecord",
    "PinnedPolicy",
    "PolicyDocument",
    "PolicyError",
    "PolicyStore",
    "PoolQueue",
    "PriorityClass",
    "PromptBlock",
    "PromptFlag",
    "ReaderState",
    "ReaderView",
    "Reaped",
    "Reaper",
    "Renewed",
    "ReplayCode",
    "RequestEnd",
    "RequestInput",
    "RequestStatus",
    "Sampling",
    "ShapeTrials",
    "TenantTerms",
    "TextSeam",
    "VettedPrompt",
    "WorkerProcessState",
    "WorkerRow",
    "WorkerView",
    "WorkerWakes",
    "all_versions",
    "checked_format",
    "compiled_policy",
    "end_payload",
    "end_unclaimed",
    "explain_request",
    "find_version",
    "format_of",
    "input_decoder",
    "input_encoder",
    "is_passing",
    "journal_contents",
    "journal_frame",
    "list_models",
    "list_versions",
    "living_processes",
    "make_journal",
    "named_model",
    "pinned_policy",
    "policy_for",
    "pool_of_journal",
    "prepare_model",
    "read_live_pools",
    "read_pool_states",
    "register_model",
    "resolve_model",
    "restarted_with_engine_environment",
    "seal_request",
    "seam_behind",
    "taken_journal",
    "text_hash",
    "uses_patterns",
    "vetted_prompt",
    "visible_text",
]
