"""Chat messages to token ids, with the model's own template and tokenizer.

Text from users is never parsed for special tokens (INV-13): the template is rendered with a private
placeholder in place of each content, then template pieces are tokenized with special tokens and contents
without, so that a `<|im_end|>` in somebody's text is ten characters and not the end of a turn.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from billing.api import Principal
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.observability.error_facts import reason
from server.access.rates import CallRates
from server.protocol.codes import ErrorCode, refusal

RENDER_SECONDS_MAX = 2.0
TEMPLATE_CHARACTERS_MAX = 4 * 1024 * 1024
INLINE_CHARACTERS_MAX = 8 * 1024
INLINE_MESSAGES_MAX = 32
THREADS = 2
SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")

ChatMessage = Mapping[str, str]
"""{"role": system, user or assistant, "content": text}"""


@dataclass(frozen=True)
class ChatPrompt:
    """Messages to render: `system` ones, and turns, of which the oldest may be left out. `unfinished`: the
    last message is the beginning of an answer, which goes on there."""

    turns: Sequence[Sequence[ChatMessage]]
    system: Sequence[ChatMessage] = ()
    unfinished: bool = False

    def newest(self, kept: int) -> "ChatPrompt":
        """The same with the last `kept` turns alone."""
        return replace(self, turns=self.turns[len(self.turns) - kept :])


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt's token ids; `turns`: how many of them are each turn's, `fixed` those of no turn."""

    ids: list[int]
    turns: tuple[int, ...]

    @property
    def fixed(self) -> int:
        """Number of tokens that are no turn's: of the system prompt and the template."""
        return len(self.ids) - sum(self.turns)


Fitting = Callable[[RenderedPrompt], int]
"""How many of the newest turns are to be kept of what all of them are rendered to."""


class PromptRenderer:
    """One model's template and tokenizer. Stateless after loading; safe in threads."""

    def __init__(self, tokenizer: str, template: str, special: Mapping[str, str]) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer)
        plain = json.loads(tokenizer)
        self._control = frozenset(int(token["id"]) for token in plain.get("added_tokens", []))
        plain["added_tokens"] = []
        self._plain = Tokenizer.from_str(json.dumps(plain))
        self._special = dict(special)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        # Functions that chat templates expect to call.
        callables: dict[str, Any] = {"raise_exception": _raise, "strftime_now": _strftime_now}
        environment.globals.update(callables)
        self._template = environment.from_string(template)

    @classmethod
    def load(cls, folder: Path) -> "PromptRenderer":
        """Read a model folder's tokenizer.json and chat template; StartupError says what is missing."""
        try:
            tokenizer = (folder / "tokenizer.json").read_text()
            settings = folder / "tokenizer_config.json"
            config: dict[str, Any] = json.loads(settings.read_text()) if settings.exists() else {}
            template_file = folder / "chat_template.jinja"
            template = template_file.read_text() if template_file.exists() else config.get("chat_template")
        except (OSError, ValueError) as error:
            raise StartupError(f"cannot read the tokenizer of {folder}: {reason(error)}") from error
        if not isinstance(template, str):
            raise StartupError(f"{folder} has no chat template (chat_template.jinja): chat needs one")
        special = {name: _token_text(config.get(name)) for name in SPECIAL_NAMES}
        return cls(tokenizer, template, special)

    def render(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's token ids, ready for the assistant's turn.

        Raises Refused (bad_request) where the template does not take these messages.
        """
        return self.render_fitting(ChatPrompt([messages]), lambda prompt: len(prompt.turns)).ids

    def render_fitting(self, prompt: ChatPrompt, fitting: Fitting) -> RenderedPrompt:
        """The prompt of the turns that `fitting` keeps. Each text is made into tokens once."""
        system = self._encoded(prompt.system)
        turns = [self._encoded(turn) for turn in prompt.turns]
        while True:
            rendered = self._assembled(prompt, system, turns)
            kept = fitting(rendered)
            if kept == len(turns):
                return rendered
            assert 0 < kept < len(turns), "turns are dropped, none comes back"
            prompt, turns = prompt.newest(kept), turns[len(turns) - kept :]

    def _assembled(
        self, prompt: ChatPrompt, system: Sequence[list[int]], turns: Sequence[Sequence[list[int]]]
    ) -> RenderedPrompt:
        """The template with these texts. An unfinished answer stands where the template lets one begin."""
        messages = [message for turn in (prompt.system, *prompt.turns) for message in turn]
        contents = [content for turn in (system, *turns) for content in turn]
        whose = [at for at, turn in enumerate((system, *turns)) for _ in turn]  # 0: of no turn
        sizes = [0] * (len(turns) + 1)
        begun = contents[-1] if prompt.unfinished else []
        pieces = self._pieces(messages[:-1] if prompt.unfinished else messages)
        encoded = _encode(self._tokenizer, pieces[::2])
        between = [ids if piece else [] for piece, ids in zip(pieces[::2], encoded, strict=True)]
        ids = list(between[0])  # what every prompt begins with is no turn's
        for at, number in enumerate(map(int, pieces[1::2])):
            sizes[whose[number]] += len(contents[number]) + (len(between[at]) if at else 0)
            ids += contents[number] + between[at + 1]
        sizes[-1] += len(begun)
        return RenderedPrompt(ids + begun, tuple(sizes[1:]))

    def _pieces(self, messages: Sequence[ChatMessage]) -> list[str]:
        """Pieces of the template's text, and between them the numbers of the messages whose texts are there.
        Some tokenizers make a token of an empty one."""
        mark = f"\ue000{secrets.token_hex(8)}:"
        marked = [
            {"role": message["role"], "content": f"{mark}{number}\ue001"}
            for number, message in enumerate(messages)
        ]
        return re.split(re.escape(mark) + "([0-9]+)\ue001", self._fill(marked))

    def _encoded(self, messages: Sequence[ChatMessage]) -> list[list[int]]:
        texts = [message["content"] for message in messages]
        return [
            self._without_control(text, ids)
            for text, ids in zip(texts, _encode(self._plain, texts), strict=True)
        ]

    def _fill(self, messages: Sequence[ChatMessage]) -> str:
        deadline = time.monotonic() + RENDER_SECONDS_MAX
        parts: list[str] = []
        size = 0
        try:
            filled: Iterator[str] = self._template.generate(
                messages=messages, add_generation_prompt=True, **self._special
            )
            for part in filled:
                parts.append(part)
                size += len(part)
                if size > TEMPLATE_CHARACTERS_MAX or time.monotonic() > deadline:
                    raise Refused(
                        refusal(ErrorCode.BAD_REQUEST, "the chat template takes too long for these messages")
                    )
        except jinja2.TemplateError as error:
            raise Refused(
                refusal(
                    ErrorCode.BAD_REQUEST,
                    f"the model's chat template refuses these messages: {error.message}",
                )
            ) from error
        return "".join(parts)

    def _without_control(self, text: str, ids: list[int]) -> list[int]:
        if self._control.isdisjoint(ids):
            return ids
        # A vocabulary that holds a control token as an ordinary merge result: characters alone never merge.
        characters = list(set(text))
        alone = dict(zip(characters, _encode(self._plain, characters), strict=True))
        return [id for character in text for id in alone[character] if id not in self._control]


class PromptRenderers:
    """Renderers by model folder, loaded once each.

    Characters are counted apart and first. A long prompt is rendered off the event loop, one of a tenant at a
    time, so that other tenants find a thread.
    """

    def __init__(self, settings: Settings, rates: CallRates) -> None:
        self._renderers: dict[Path, PromptRenderer] = {}
        self._characters_max = settings.prompt_characters_max
        self._rates = rates
        self._threads = ThreadPoolExecutor(THREADS, "prompts")
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    def count(self, principal: Principal, messages: Sequence[ChatMessage]) -> None:
        """Count a prompt's characters, before anything costly is done with it. Raises Refused for too many,
        in this prompt or lately."""
        self._rates.prompt(principal, self._characters(messages))

    async def render(
        self, principal: Principal, folder: Path, prompt: ChatPrompt, fitting: Fitting
    ) -> RenderedPrompt:
        """The prompt, by PromptRenderer.render_fitting. Raises Refused also for too many characters:
        placeholders may be longer than what they stand for."""
        messages = [message for turn in (prompt.system, *prompt.turns) for message in turn]
        characters = self._characters(messages)
        renderer = self._renderers.get(folder)
        if renderer is None:
            renderer = self._renderers[folder] = await asyncio.to_thread(PromptRenderer.load, folder)
        if characters <= INLINE_CHARACTERS_MAX and len(messages) <= INLINE_MESSAGES_MAX:
            return renderer.render_fitting(prompt, fitting)
        turn = self._turns.setdefault(principal.tenant, asyncio.Lock())
        async with turn:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, renderer.render_fitting, prompt, fitting)

    def _characters(self, messages: Sequence[ChatMessage]) -> int:
        characters = sum(len(message["content"]) for message in messages)
        if characters > self._characters_max:
            problem = f"the messages together may have {self._characters_max} characters: send fewer"
            raise Refused(refusal(ErrorCode.TOO_LARGE, problem, limit=self._characters_max))
        return characters


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Token ids without special tokens. Unlike `encode` this lets other threads run meanwhile."""
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return [encoding.ids for encoding in found]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _token_text(value: object) -> str:
    """The text of a special token: tokenizer_config.json has it as text or as {"content": text}."""
    if isinstance(value, dict):
        return str(value.get("content", ""))  # pyright: ignore[reportUnknownMemberType]
    return value if isinstance(value, str) else ""


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now(UTC).strftime(format)
