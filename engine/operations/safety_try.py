"""The operation that shows what a policy does to a text, step by step. The text is kept nowhere, and stands
in no address: what is asked comes in the body."""

from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import PLATFORM, Look
from core.errors import bad_request
from core.operations import Uses, operation
from engine.operations.policy_levels import Level, readable
from engine.operations.safety import READS, TRIERS, NamePolicy, level_meant
from engine.policies.losses import one_sided
from engine.policies.merge import SCOPES, merged
from engine.policies.one_at_a_time import OneAtATime
from engine.policies.store import PolicyStore
from engine.policies.trial import Trial, tried
from engine.safety.documents import PolicyDocument, PolicyError, policy_hash
from engine.safety.patterns import PatternError
from engine.safety.policy import UnknownPolicyError, compiled
from engine.safety.policy_checks import checked

TEXT_BYTES_MAX = 256 << 10
MEMBERS_BYTES_MAX = 16 << 10  # of those whose pages others' share a process with
TRYING = OneAtATime()  # long texts and many patterns take a processor


class TryPolicy(NamePolicy, frozen=True, kw_only=True):
    """A text, and whose rules are tried on it."""

    text: Annotated[
        str, Meta(max_length=TEXT_BYTES_MAX, description="Words of yours; they are kept nowhere.")
    ]
    as_prompt: Annotated[bool, Meta(description="As a prompt; without it, as an answer.")] = False
    document: Annotated[
        PolicyDocument | None, Meta(description="In place of the document that is set there.")
    ] = None


class TriedPolicy(msgspec.Struct, frozen=True):
    """What became of the text under what holds there (`sha256`). `elsewhere`: rules that look at prompts
    alone, or of a prompt at answers alone."""

    of: Level
    sha256: str
    elsewhere: list[str]
    trial: Trial


@operation("safety.try", "POST /safety/try", may=TRIERS, uses=Uses(reads=READS))
async def try_policy(look: Look, ask: TryPolicy) -> TriedPolicy:
    """Show what the rules that hold somewhere do to a text: each match with whose rule it is, what becomes of
    it, and what is shown and held back as tokens come. The text is kept nowhere."""
    whose = look.who.tenant or PLATFORM
    most = TEXT_BYTES_MAX if look.who.tenant is None else MEMBERS_BYTES_MAX
    if len(ask.text.encode("utf-8", "surrogatepass")) > most:
        raise bad_request(f"a text to try has {most >> 10} KiB at most", field="text")
    level, store = await level_meant(look, ask), PolicyStore(look.db)
    rows = await store.newest(level.tenant_id, level.project_id)
    documents = {scope: readable(row) for scope, row in rows.items()}
    if ask.document is not None:
        documents[level.scope] = await TRYING.run(whose, draft_checked, ask.document)
    document = merged(*(documents.get(scope) for scope in SCOPES))
    return await TRYING.run(whose, tried_under, level, document, ask.text, ask.as_prompt)


def draft_checked(draft: PolicyDocument) -> PolicyDocument:
    """A document that is not set yet. Raises Refused where it could not be. Pure."""
    try:
        checked(draft)
    except PolicyError as error:
        raise bad_request(str(error), field="document") from error
    return draft


def tried_under(level: Level, document: PolicyDocument, text: str, as_prompt: bool) -> TriedPolicy:
    """What becomes of a text under a merged document. Raises Refused where this version cannot look for what
    it asks. Pure."""
    try:
        policy = compiled(document, "prompt" if as_prompt else "answer")
    except (PolicyError, UnknownPolicyError, PatternError) as error:
        told = f"this version cannot look for what the policy asks: {error}"
        raise bad_request(told, field="document") from error
    elsewhere = one_sided(document, document)["prompt" if as_prompt else "action"]
    return TriedPolicy(level, policy_hash(document), elsewhere, tried(text, policy, whole=as_prompt))


OPERATIONS = (try_policy,)
