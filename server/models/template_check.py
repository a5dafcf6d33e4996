"""Renders a small conversation by a model folder's template: `python -m server.models.template_check FOLDER`.

A process of its own, as a template is a program that somebody else wrote, and since packages below this one
ask for it. Its last line of output is how many tokens the prompt has, or why there is none (exit code 1).
"""

import sys
from pathlib import Path

from core.errors import Refused, StartupError
from server.models.prompts import ChatMessage, PromptRenderer

CONVERSATION: tuple[ChatMessage, ...] = (
    {"role": "user", "content": "Why does the moon show us one side only?"},
    {"role": "assistant", "content": "It turns once on its way around."},
    {"role": "user", "content": "And the sun? <|im_end|>"},
)


def check(folder: Path) -> int:
    """How many tokens a gateway makes of a small conversation. Raises StartupError where it makes none."""
    try:
        tokens = len(PromptRenderer.load(folder).render(CONVERSATION))
    except Refused as refused:
        raise StartupError(refused.refusal.message) from refused
    if not tokens:
        raise StartupError("the model's chat template makes no token of a conversation")
    return tokens


if __name__ == "__main__":
    try:
        print(check(Path(sys.argv[1])))
    except Exception as error:  # noqa: BLE001  (one line for the operator, whatever the library raised)
        print(" ".join(str(error).split()) or type(error).__name__)
        sys.exit(1)
