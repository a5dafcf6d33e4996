"""The clients that the suite drives: ours in Python, and ours of the browser in a page of Chromium."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
from playwright.async_api import Page

from parley_client import (
    Answer,
    Client,
    Encoding,
    Ended,
    KeptTurns,
    ProtocolError,
    Reset,
    SafetyPromptBlock,
    SafetyPromptFlag,
    SignedOut,
    Text,
    TooManyTokens,
)
from parley_client.answer import OpenAnswer
from tests.conformance.clients.steps import OptionsStep

Facts = dict[str, Any]
PAGE = "<!doctype html><p>sign in"
NO_TOKENS: dict[str, Any] = {"page": PAGE, "nothing": None}
LIMIT_FACTS = ("dimension", "remaining", "spent", "held", "resets_at_ms")


class Subject(Protocol):
    """A client under test, as its application sees it."""

    async def start(self, url: str, options: OptionsStep) -> None:
        """Make a client and let it connect."""
        ...

    async def send(self, id: str, message: Facts, unread: bool) -> None:
        """Send a turn. `unread`: the application does not read until `read`."""
        ...

    async def attach(self, id: str, unread: bool) -> None:
        """Read somebody's request."""
        ...

    async def call(self, action: str, id: str | None = None) -> None:
        """`cancel`, `detach`, `read` (an answer), `close`, `online`, `show`, `hide`."""
        ...

    async def set_token(self, kind: str) -> None:
        """What asking for a token brings from now on: `good`, `offline`, `signed_out`, or what is none:
        `page`, `nothing`, `not_json`."""
        ...

    async def answer(self, id: str) -> Facts | None:
        """What the application sees of an answer."""
        ...

    async def state(self) -> Facts:
        """`state`: open, lost (then `why`, once it is known) or stopped (then `code` and `message`)."""
        ...

    async def counters(self) -> Facts:
        """What the client counted."""
        ...

    async def stop(self) -> None:
        """The end."""
        ...


@dataclass
class _SubjectRead:
    """One answer and the task that reads it."""

    may_read: asyncio.Event = field(default_factory=asyncio.Event)
    reading: OpenAnswer | None = None
    answer: Answer | None = None
    refused: ProtocolError | None = None
    traces: list[Facts] = field(default_factory=list[Facts])
    waiting: Facts | None = None
    task: asyncio.Task[None] | None = None


class PythonSubject:
    """parley_client, in this process. `key`: with it tickets are had from a real gateway."""

    def __init__(self, encoding: Encoding, key: str | None = None) -> None:
        self._encoding: Encoding = encoding
        self._key = key
        self._url = ""
        self._client: Client | None = None
        self._entering: asyncio.Task[Any] | None = None
        self._reads: dict[str, _SubjectRead] = {}
        self._token = "good"
        self._tokens = 0

    @property
    def client(self) -> Client:
        """The client."""
        assert self._client is not None
        return self._client

    async def start(self, url: str, options: OptionsStep) -> None:
        self._url = url
        self._client = Client(
            url,
            self._ticket,
            window=options.window,
            batch=options.batch,
            trace=options.trace,
            encoding=self._encoding,
            backoff_seconds=options.backoff_ms / 1000,
        )
        self._entering = asyncio.create_task(self._enter())

    async def _enter(self) -> None:
        try:
            await self.client.__aenter__()
        except ProtocolError:
            return  # `state` tells

    async def _ticket(self) -> str:
        if self._token == "offline":
            raise ConnectionError("offline")
        if self._token == "signed_out":
            raise SignedOut("signed out")
        if self._token == "not_json":
            json.loads(PAGE)
        if self._token in NO_TOKENS:
            return NO_TOKENS[self._token]
        self._tokens += 1
        return f"ticket-{self._tokens}" if self._key is None else await self._real_ticket(self._key)

    async def _real_ticket(self, key: str) -> str:
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient() as http:
            reply = await http.post(f"{self._url}/v1/tickets", headers=headers, json={"user": "ann"})
        return reply.raise_for_status().json()["ticket"]

    async def send(self, id: str, message: Facts, unread: bool) -> None:
        read = _SubjectRead()

        def waiting(why: ProtocolError) -> None:
            read.waiting = {"code": why.code, "message": why.message}

        said = {"continues" if name == "continue" else name: value for name, value in message.items()}
        await self._begin(id, read, self.client.send(**said, id=id, on_waiting=waiting), unread)

    async def attach(self, id: str, unread: bool) -> None:
        await self._begin(id, _SubjectRead(), self.client.attach(id), unread)

    async def _begin(
        self, id: str, read: _SubjectRead, starting: Coroutine[Any, Any, Answer], unread: bool
    ) -> None:
        self._reads[id] = read
        if not unread:
            read.may_read.set()
        read.task = asyncio.create_task(self._read(read, starting))
        await asyncio.sleep(0)
        read.reading = self.client._readings.get(id)

    async def _read(self, read: _SubjectRead, starting: Coroutine[Any, Any, Answer]) -> None:
        try:
            read.answer = await starting
            events = aiter(read.answer.events())
            while True:
                await read.may_read.wait()
                event = await anext(events, None)
                if event is None:
                    return
                if isinstance(event, Text | Reset | Ended) and event.trace is not None:
                    read.traces.append(vars(event.trace))
        except ProtocolError as error:
            read.refused = error

    async def call(self, action: str, id: str | None = None) -> None:
        match action, id:
            case "cancel", str():
                await self.client.cancel(id)
            case "detach", str():
                answer = self._reads[id].answer
                assert answer is not None
                await answer.detach()
            case "read", str():
                self._reads[id].may_read.set()
            case "close", None:
                await self.client.close()
            case _:
                raise AssertionError(f"the Python client has no {action}")

    async def set_token(self, kind: str) -> None:
        self._token = kind

    async def answer(self, id: str) -> Facts | None:
        read = self._reads.get(id)
        if read is None or (read.reading is None and read.refused is None):
            return None
        reading = read.reading or OpenAnswer(id, None)
        error, ended = reading.error or read.refused, reading.ended
        return {
            "text": reading.text,
            "applied": reading.applied,
            "flags": [vars(flag) for flag in reading.flags],
            "prompt_flags": [_said(flag) for flag in reading.prompt_flags],
            "context": _said(reading.context) if reading.context else None,
            "max_tokens": reading.max_tokens,
            "epoch": reading.epoch,
            "status": "failed" if error else str(reading.standing),
            "tokens": reading.tokens,
            "paused": reading.paused,
            "cancelling": reading.cancelling,
            "moved_because": reading.moved_because,
            "reason": ended.reason if ended else None,
            "code": ended.code if ended else None,
            "safety": vars(ended.safety) if ended and ended.safety else None,
            "verified": ended.verified if ended else None,
            "usage": ended.usage.total if ended else None,
            "cost": ended.cost_nano if ended else None,
            "error": _error(error),
            "traces": read.traces,
            "waiting": read.waiting,
        }

    async def state(self) -> Facts:
        if (stopped := self.client.stopped) is not None:
            return {"state": "stopped", "code": stopped.code, "message": stopped.message}
        if (why := self.client.waiting) is not None:
            return {"state": "lost", "why": {"code": why.code, "message": why.message}}
        return {"state": "open" if self.client.connected else "lost"}

    async def counters(self) -> Facts:
        return vars(self.client.counters)

    async def stop(self) -> None:
        await self.client.close()
        tasks = [read.task for read in self._reads.values() if read.task] + [self._entering]
        for task in tasks:
            assert task is not None
            task.cancel()
        await asyncio.gather(*[task for task in tasks if task], return_exceptions=True)


def _error(error: ProtocolError | None) -> Facts | None:
    names = ("code", "message", "retry", "after_ms", "scope", "limit", *LIMIT_FACTS)
    if error is None:
        return None
    place = error.safety and _said(error.safety)
    tokens = error.tokens and _said(error.tokens)
    return {**{name: getattr(error, name) for name in names}, "safety": place, "tokens": tokens}


def _said(of: SafetyPromptFlag | SafetyPromptBlock | KeptTurns | TooManyTokens) -> Facts:
    """Without what was not said."""
    return {name: value for name, value in vars(of).items() if value is not None}


START = """async ([options, key]) => {
  const { Client, SignedOut } = await import("/web/client/client.js");
  const subject = { answers: {}, traces: {}, unread: {}, waiting: {}, token: "good", tokens: 0 };
  const NO_TOKENS = { page: "<!doctype html><p>sign in", nothing: undefined };
  window.subject = subject;
  subject.client = new Client({
    ...options,
    token: async () => {
      if (subject.token === "offline") throw new Error("offline");
      if (subject.token === "signed_out") throw new SignedOut("signed out");
      if (subject.token === "not_json") return JSON.parse(NO_TOKENS.page);
      if (subject.token in NO_TOKENS) return NO_TOKENS[subject.token];
      subject.tokens++;
      if (!key) return `ticket-${subject.tokens}`;
      const headers = { authorization: `Bearer ${key}` };
      const body = JSON.stringify({ user: "ann" });
      return (await (await fetch("/v1/tickets", { method: "POST", headers, body })).json()).ticket;
    },
    onChange: (answer, change, trace) => {
      if (trace) (subject.traces[answer.id] ??= []).push(trace);
      return subject.unread[answer.id]?.promise;
    },
  });
  subject.hold = (id) => {
    const held = {};
    held.promise = new Promise((resolve) => (held.go = resolve));
    subject.unread[id] = held;
  };
  subject.client.connect();
}"""
SEND = """async ([id, message, unread]) => {
  if (unread) subject.hold(id);
  subject.answers[id] = await subject.client.send(
    { ...message, id },
    { onWaiting: (why) => void (subject.waiting[id] = why) },
  );
}"""
ATTACH = """([id, unread]) => {
  if (unread) subject.hold(id);
  subject.answers[id] = subject.client.attach(id);
}"""
CALLS = {
    "cancel": "(id) => subject.client.cancel(subject.answers[id])",
    "detach": "(id) => subject.client.detach(subject.answers[id])",
    "read": "(id) => { const held = subject.unread[id]; delete subject.unread[id]; held.go(); }",
    "close": "() => subject.client.close()",
    "online": "() => void dispatchEvent(new Event('online'))",
    "show": "() => become('visible')",
    "hide": "() => become('hidden')",
}
VISIBILITY = """
window.become = (state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
ANSWER = """(id) => {
  const answer = subject.answers[id];
  if (!answer) return null;
  const { text, applied, epoch, status, tokens, paused, cancelling, reason, code, verified, error } = answer;
  const { code: problem, message, retry, afterMs: after_ms, scope, limit } = error ?? {};
  const { dimension, remaining, spent, held, resetsAtMs: resets_at_ms } = error ?? {};
  const { safety, tokens: counts } = error ?? {};
  const counted = { dimension, remaining, spent, held, resets_at_ms, safety, tokens: counts };
  return {
    flags: answer.flags, prompt_flags: answer.promptFlags, safety: answer.safety,
    context: answer.context, max_tokens: answer.maxTokens,
    text, applied, epoch, status, tokens, paused, cancelling, reason, code, verified,
    moved_because: answer.movedBecause,
    usage: answer.usage?.total ?? null,
    cost: answer.cost?.nano ?? null,
    error: error && { code: problem, message, retry, after_ms, scope, limit, ...counted },
    traces: subject.traces[id] ?? [],
    waiting: subject.waiting[id] ?? null,
  };
}"""
STATE = """() => {
  const { state, code, message, why } = subject.client.state;
  if (state === "stopped") return { state, code, message };
  if (why) return { state: "lost", why };
  return { state: state === "open" ? "open" : "lost" };
}"""


class BrowserSubject:
    """clients/js, in a page of Chromium. `key`: with it tickets are had from a real gateway."""

    def __init__(self, page: Page, key: str | None = None) -> None:
        self._page = page
        self._key = key

    async def start(self, url: str, options: OptionsStep) -> None:
        await self._page.evaluate(VISIBILITY)
        given = {"batch": options.batch, "trace": options.trace, "backoffMs": options.backoff_ms}
        window = {"window": options.window} if options.window else {}
        await self._page.evaluate(START, [given | window, self._key])

    async def send(self, id: str, message: Facts, unread: bool) -> None:
        await self._page.evaluate(SEND, [id, message, unread])

    async def attach(self, id: str, unread: bool) -> None:
        await self._page.evaluate(ATTACH, [id, unread])

    async def call(self, action: str, id: str | None = None) -> None:
        await self._page.evaluate(CALLS[action], id)

    async def set_token(self, kind: str) -> None:
        await self._page.evaluate("(kind) => void (subject.token = kind)", kind)

    async def answer(self, id: str) -> Facts | None:
        return await self._page.evaluate(ANSWER, id)

    async def state(self) -> Facts:
        return await self._page.evaluate(STATE)

    async def counters(self) -> Facts:
        return await self._page.evaluate("subject.client.counters")

    async def stop(self) -> None:
        await self._page.evaluate("subject.client.close()")
