"""Requests that end into a journal."""

from pathlib import Path
from typing import Any

import msgspec

from billing.booking.admissions import SealedAdmission, seal
from billing.usage import ended_stream
from core.configuration.settings import Settings
from engine.api import Enqueue
from engine.journal.files import FOLDER
from engine.queue.journaled_ends import JournalContents, JournaledEnd, contents
from engine.request import input_decoder, input_encoder
from tests.engine.builders import FINGERPRINT, TENANT
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis

POOL = "default"


def files(settings: Settings) -> list[Path]:
    """Of all journals."""
    return sorted((settings.home / FOLDER).glob("*"))


def ends_in(settings: Settings) -> list[JournaledEnd]:
    """What is journaled, in all files; what a death made stand there twice, once."""
    found = [contents(path.read_bytes()) for path in files(settings)]
    return [*dict.fromkeys(end for each in found if isinstance(each, JournalContents) for end in each.ends)]


def admitted(crew: PoolWorkers, id: str = "") -> Enqueue:
    """A request with a gateway's seal, which goes with it and with its event."""
    asked = crew.request_of()
    asked = msgspec.structs.replace(asked, id=id or asked.id)
    given = input_decoder.decode(asked.input)
    facts = SealedAdmission(
        *(TENANT, asked.id, given.model, FINGERPRINT, given.owner, given.prices),
        *(given.accepted_ms, len(given.prompt) // 4, given.sampling.max_tokens),
    )
    sealed = msgspec.structs.replace(given, seal=seal(facts, crew.settings.keyring))
    return msgspec.structs.replace(asked, input=input_encoder.encode(sealed))


async def streamed(redis: Redis) -> list[tuple[str, bytes]]:
    """Ids and events in the stream."""
    client: Any = redis
    return [(id.decode(), fields[b"e"]) for id, fields in await client.xrange(ended_stream(POOL))]
