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
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from core.errors import Refused, StartupError
from server.protocol.codes import ErrorCode, refusal

RENDER_SECONDS_MAX = 2.0
TEMPLATE_CHARACTERS_MAX = 4 * 1024 * 1024
INLINE_CHARACTERS_MAX = 8 * 1024
SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")

ChatMessage = Mapping[str, str]
"""{"role": system, user or assistant, "content": text}"""


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
        # What chat templates expect to be able to call.
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
            raise StartupError(f"cannot read the tokenizer of {folder}: {error}") from error
        if not isinstance(template, str):
            raise StartupError(f"{folder} has no chat template (chat_template.jinja): chat needs one")
        special = {name: _token_text(config.get(name)) for name in SPECIAL_NAMES}
        return cls(tokenizer, template, special)

    def render(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's token ids, ready for the assistant's turn.

        Raises Refused (bad_request) where the template does not take these messages.
        """
        mark = f"\ue000{secrets.token_hex(8)}:"
        marked = [
            {"role": message["role"], "content": f"{mark}{number}\ue001"}
            for number, message in enumerate(messages)
        ]
        ids: list[int] = []
        pieces = re.split(re.escape(mark) + "([0-9]+)\ue001", self._fill(marked))
        for turn, piece in enumerate(pieces):
            if turn % 2:
                ids.extend(self._content_ids(messages[int(piece)]["content"]))
            elif piece:
                ids.extend(self._tokenizer.encode(piece, add_special_tokens=False).ids)
        return ids

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

    def _content_ids(self, text: str) -> list[int]:
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        if self._control.isdisjoint(ids):
            return ids
        # A vocabulary that holds a control token as an ordinary merge result: characters alone never merge.
        return [
            id
            for character in text
            for id in self._plain.encode(character, add_special_tokens=False).ids
            if id not in self._control
        ]


class Prompts:
    """Renderers by model folder, loaded once each; large prompts are rendered off the event loop."""

    def __init__(self) -> None:
        self._renderers: dict[Path, PromptRenderer] = {}

    async def render(self, folder: Path, messages: Sequence[ChatMessage]) -> list[int]:
        """Token ids of the prompt (see PromptRenderer.render)."""
        renderer = self._renderers.get(folder)
        if renderer is None:
            renderer = self._renderers[folder] = await asyncio.to_thread(PromptRenderer.load, folder)
        if sum(len(message["content"]) for message in messages) <= INLINE_CHARACTERS_MAX:
            return renderer.render(messages)
        return await asyncio.to_thread(renderer.render, messages)


def _token_text(value: object) -> str:
    """tokenizer_config.json writes special tokens as text or as {"content": text}."""
    if isinstance(value, dict):
        return str(value.get("content", ""))  # pyright: ignore[reportUnknownMemberType]
    return value if isinstance(value, str) else ""


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now(UTC).strftime(format)
