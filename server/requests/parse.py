"""Parses a `send`: checks every value in it, or refuses it with a message that says what to do. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7_ms
from core.names import checked_name, checked_user
from engine.api import PriorityClass, Sampling, checked_format
from server.protocol.codec import body_hash, explain
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import Send

METADATA_BYTES_MAX = 4 * 1024
SYSTEM_BYTES_MAX = 16 * 1024
NO_READER_MS_MAX = 24 * 3600 * 1000
ROLES = ("system", "user", "assistant")
NOT_SERVED = {
    "logprobs": "logprobs are not served in version 1",
    "safety": "this server has no safety policies to choose from",
}

Penalty = Annotated[float, Meta(ge=-2, le=2)]


class CancelWithoutReader(Struct, frozen=True, forbid_unknown_fields=True):
    """Cancel a request that nobody has read for so long."""

    cancel_after_ms: Annotated[int, Meta(ge=0, le=NO_READER_MS_MAX)]


class Options(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of a turn. None: not given."""

    max_tokens: Annotated[int, Meta(ge=1, lt=2**31)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    stop: Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=4)] = []
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.0
    priority: PriorityClass = PriorityClass.INTERACTIVE
    deadline_ms: Annotated[int, Meta(ge=1, lt=2**53)] | None = None
    on_no_reader: Literal["continue"] | CancelWithoutReader = "continue"
    response_format: str | None = None  # checked and packed


class TextPart(Struct, frozen=True, tag_field="type", tag="text"):
    """One part of a content."""

    text: str


class RoleMessage(Struct, frozen=True):
    """One message of a stateless turn, before its content is looked at."""

    role: str
    content: Any


@dataclass(frozen=True)
class ParsedSend:
    """A checked send. `messages`: the whole prompt of a stateless turn, the new message of a stored one, none
    where an answer goes on; `several`: they came as `messages`, and not as one `content`. `system`: what
    replaces a conversation's own, empty for none; None: not given. `continues`: the answer that goes on."""

    id: str
    model: str | None
    conversation: str | None
    messages: list[dict[str, str]]
    options: Options
    metadata: dict[str, Any]
    body_hash: str
    several: bool = False
    system: str | None = None
    continues: str | None = None

    @property
    def stored(self) -> bool:
        """True for a turn of a conversation: its history is kept here, and trimmed."""
        return self.conversation is not None


def parse_send(send: Send, now_ms: int, settings: Settings) -> ParsedSend:
    """Check a send. Raises Refused (bad_request)."""
    _check_id(send.id, now_ms, settings)
    if send.conversation is not None and uuid7_ms(send.conversation) is None:
        raise bad_request("conversation: make a UUIDv7 in lower-case canonical form")
    if send.conversation is not None and send.messages is not None:
        raise bad_request("a stored conversation takes `content`; its history is kept here")
    options = _options(send.options)
    messages = _messages(send, settings.prompt_messages_max) if send.continue_ is None else []
    system = _system(send)
    if send.continue_ is not None:
        _check_continue(send, options)
    metadata = _metadata(send.metadata)
    body = {
        "model": send.model,
        "conversation": send.conversation,
        "content" if send.messages is None else "messages": messages,
        "options": msgspec.to_builtins(options),
        "metadata": metadata,
    }
    if system is not None:  # else the hash is that of before there was one
        body["system"] = system
    if send.continue_ is not None:
        body["continue"] = send.continue_
    try:
        hashed = body_hash(body)
    except UnicodeError:
        raise bad_request("a text holds half of a surrogate pair, which is no Unicode character") from None
    several = send.messages is not None
    asked = (send.id, send.model, send.conversation, messages, options, metadata)
    return ParsedSend(*asked, hashed, several, system, send.continue_)


def sampling(options: Options, max_tokens: int, temperature: float) -> Sampling:
    """Sampling of a turn whose answer has at most `max_tokens`; `temperature` is the model's own.

    Raises Refused (bad_request) where min_tokens cannot be met.
    """
    if options.min_tokens > max_tokens:
        raise bad_request(f"options.min_tokens: {options.min_tokens} is more than max_tokens, {max_tokens}")
    return Sampling(
        max_tokens=max_tokens,
        min_tokens=options.min_tokens,
        temperature=temperature if options.temperature is None else options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        seed=options.seed,
        stop=tuple(options.stop),
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        repetition_penalty=options.repetition_penalty,
        response_format=options.response_format,
    )


def capped_priority(asked: PriorityClass, most: str) -> PriorityClass:
    """The class of a request whose tenant or key may have `most` at best."""
    ranks = list(PriorityClass)
    return max(asked, PriorityClass(most), key=ranks.index)


def deadline_ms(options: Options, priority: PriorityClass, accepted_ms: int, settings: Settings) -> int:
    """Deadline of the request, in Unix ms."""
    defaults = {
        PriorityClass.INTERACTIVE: settings.deadline_interactive_ms,
        PriorityClass.STANDARD: settings.deadline_standard_ms,
        PriorityClass.BULK: settings.deadline_bulk_ms,
    }
    return accepted_ms + min(options.deadline_ms or defaults[priority], settings.deadline_bulk_ms)


def bad_request(problem: str) -> Refused:
    """A refusal of a value."""
    return Refused(refusal(ErrorCode.BAD_REQUEST, problem))


def _check_id(id: str, now_ms: int, settings: Settings) -> None:
    made_ms = uuid7_ms(id)
    if made_ms is None:
        raise bad_request("id: make a UUIDv7 in lower-case canonical form")
    if made_ms < now_ms - settings.id_age_seconds_max * 1000:
        hours = settings.id_age_seconds_max // 3600
        raise bad_request(f"id: its time is more than {hours} h ago; make ids from welcome.now")
    if made_ms > now_ms + settings.id_ahead_seconds_max * 1000:
        minutes = settings.id_ahead_seconds_max // 60
        raise bad_request(f"id: its time is more than {minutes} min ahead; make ids from welcome.now")


def _messages(send: Send, most: int) -> list[dict[str, str]]:
    if (send.content is None) == (send.messages is None):
        raise bad_request("give exactly one of `content` and `messages`")
    if send.messages is None:
        messages = [{"role": "user", "content": _text(send.content, "content")}]
    else:
        if not isinstance(send.messages, list):
            raise bad_request("messages: expected a list of {role, content}")
        if not 1 <= len(send.messages) <= most:  # pyright: ignore[reportUnknownArgumentType]
            raise bad_request(f"messages: expected 1 to {most} messages")
        messages = [_message(raw, at) for at, raw in enumerate(send.messages)]  # pyright: ignore
    if not any(message["role"] == "user" and message["content"].strip() for message in messages):
        raise bad_request("the prompt is empty: there is no text of a user in it")
    return messages


def _system(send: Send) -> str | None:
    system = send.system
    if system is None:
        return None
    if send.messages is not None:
        raise bad_request("system: goes with `content`; of `messages` give the first the role system")
    if len(system.encode(errors="surrogatepass")) > SYSTEM_BYTES_MAX:
        raise bad_request(f"system: a text of at most {SYSTEM_BYTES_MAX} bytes")
    return _text(system, "system")


def _check_continue(send: Send, options: Options) -> None:
    if uuid7_ms(send.continue_ or "") is None:
        raise bad_request("continue: give the id of an answer, or of the request that it answers")
    if send.conversation is None:
        raise bad_request("continue: an answer goes on in its conversation: name that too")
    if send.content is not None or send.messages is not None or send.system is not None:
        raise bad_request("continue: goes with no `content`, `messages` or `system`")
    if options.response_format is not None:
        raise bad_request("continue: an answer with a response_format does not go on")


def _message(raw: Any, at: int) -> dict[str, str]:
    try:
        message = msgspec.convert(raw, RoleMessage)
    except msgspec.ValidationError as error:
        raise bad_request(explain(error, f"messages[{at}]")) from None
    if message.role not in ROLES:
        raise bad_request(f"messages[{at}].role: expected one of {', '.join(ROLES)}")
    return {"role": message.role, "content": _text(message.content, f"messages[{at}].content")}


def _text(content: Any, where: str) -> str:
    if not isinstance(content, str):
        try:
            parts = msgspec.convert(content, list[TextPart])
        except msgspec.ValidationError as error:
            problem = explain(error, where)
            raise bad_request(f'{problem}; give a text or [{{"type":"text","text":…}}]') from None
        content = "".join(part.text for part in parts)
    if "\0" in content:
        raise bad_request(f"{where}: a text cannot hold the character U+0000")
    return content


def _options(raw: Any) -> Options:
    if raw is None:
        return Options()
    if not isinstance(raw, dict):
        raise bad_request("options: expected an object")
    given = {name: value for name, value in raw.items() if value is not None}
    for name, problem in NOT_SERVED.items():
        if name in given:
            raise bad_request(f"options.{name}: {problem}")
    if "response_format" in given:
        given["response_format"] = _format(given["response_format"])
    try:
        options = msgspec.convert(given, Options)
    except (msgspec.ValidationError, TypeError) as error:
        raise bad_request(explain(error, "options")) from None
    if options.min_tokens and options.response_format:
        raise bad_request("options.min_tokens: an answer in a response_format ends where its shape does")
    return options


def _format(raw: Any) -> str | None:
    try:
        return checked_format(raw)
    except msgspec.ValidationError as error:
        raise bad_request(explain(error, "options.response_format")) from None
    except ValueError as error:
        raise bad_request(f"options.response_format: {error}") from None


def no_reader_ms(options: Options) -> int | None:
    """Milliseconds that a request may be without a reader before it is cancelled, None: for ever."""
    return None if isinstance(options.on_no_reader, str) else options.on_no_reader.cancel_after_ms


def labels(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata to store with the usage: without the user's name, which is stored in one place only."""
    return {name: value for name, value in metadata.items() if name != "user"}


def _metadata(raw: Any) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise bad_request("metadata: expected an object")
    metadata: dict[str, Any] = raw
    try:
        size = len(msgspec.json.encode(metadata))
    except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError):
        raise bad_request("metadata: expected what JSON can hold") from None
    if size > METADATA_BYTES_MAX:
        raise bad_request(f"metadata: longer than {METADATA_BYTES_MAX} bytes")
    named = dict[str, Any]()
    if "project" in metadata:
        named["project"] = checked_name("metadata.project", metadata["project"])
    if "user" in metadata:
        named["user"] = checked_user(metadata["user"], "metadata.user")
    return {**metadata, **named}
