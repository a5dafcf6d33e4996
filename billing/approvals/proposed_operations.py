"""What is proposed: an operation and what it is asked, as data; said in a line for people. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from billing.tables.approvals import Proposal
from core.errors import bad_request
from core.operations import Operation, registered

FORMER = "it was proposed by a former version of Parley: propose it again"


class ProposedOperation(msgspec.Struct, frozen=True):
    """An operation by name, its struct, and the reason that its caller gave."""

    operation: str
    ask: dict[str, Any]
    reason: str = ""

    @property
    def kind(self) -> str:
        """The kind of move, in one word: the operation's verb."""
        return self.operation.rpartition(".")[2]

    def declared(self) -> tuple[Operation, msgspec.Struct]:
        """The operation, and its struct. Raises Refused where this version has no such one."""
        operation = registered().get(self.operation)
        if operation is None:
            raise bad_request(FORMER)
        try:
            return operation, msgspec.convert(self.ask, operation.asks)
        except msgspec.ValidationError as error:
            raise bad_request(FORMER) from error


def proposed_by(operation: Operation, ask: msgspec.Struct, tenant_id: str, reason: str) -> ProposedOperation:
    """An operation as it is proposed: its tenant by id, as names change."""
    return ProposedOperation(operation.name, msgspec.to_builtins(ask) | {"tenant": tenant_id}, reason)


def proposed_in(row: Proposal) -> ProposedOperation:
    """What a proposal would do. Raises Refused where a former version wrote it."""
    try:
        return msgspec.json.decode(row.move, type=ProposedOperation)
    except msgspec.ValidationError as error:
        raise bad_request(FORMER) from error


def kind_text(kind: str) -> str:
    """A kind of move, in the words of its command."""
    return "correction" if kind == "correct" else kind.replace("_", "-")


def about(row: Proposal) -> str:
    """Describe a proposal in one line, from people's own words."""
    found: dict[str, Any] = msgspec.json.decode(row.move)
    ask, reason = found.get("ask", found), found.get("reason", "")
    match row.kind:
        case "grant":
            return f"{ask['kind']} grant {ask['key']} {ask['note']}".rstrip()
        case "void" | "claw_back":
            return f"grant {ask['grant']}: {reason}"
        case "pay_out":
            return f"{ask['key']}: {reason}"
        case "correct" | "refund":
            return f"request {ask['request']}: {ask['cause']}"
        case "commit":
            return f"{ask['gpus']} GPUs {ask['gpu']} for {ask['days']} days, {ask['payment']}"
        case "end_commitment":
            return f"commitment {ask['commitment']}: {reason}"
        case _:
            return _facts(ask, reason)


def _facts(ask: Mapping[str, Any], reason: str) -> str:
    named = [f"{name} {value}" for name, value in ask.items() if isinstance(value, str | int)]
    return ", ".join(named) + (f": {reason}" if reason else "")
