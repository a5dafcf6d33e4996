"""Async Python client of Parley's session protocol parley.v1.

The names here are the client's interface; its modules are internal.
"""

from parley_client.answer import (
    Counters,
    Ended,
    Event,
    ProtocolError,
    Reset,
    SafetyBlock,
    SafetyFlag,
    Standing,
    Status,
    Text,
    TextTakenBack,
    Trace,
    Usage,
)
from parley_client.client import Client
from parley_client.connection import ConnectionState, Encoding
from parley_client.conversations import (
    ConversationPage,
    Conversations,
    MessagePage,
    StoredConversation,
    StoredMessage,
)
from parley_client.limit_words import error_text
from parley_client.link import SignedOut
from parley_client.prompts import KeptTurns, SafetyPromptBlock, SafetyPromptFlag, TooManyTokens, redacted
from parley_client.reader import Answer

__all__ = [
    "Answer",
    "Client",
    "ConnectionState",
    "ConversationPage",
    "Conversations",
    "Counters",
    "Encoding",
    "Ended",
    "Event",
    "KeptTurns",
    "MessagePage",
    "ProtocolError",
    "Reset",
    "SafetyBlock",
    "SafetyFlag",
    "SafetyPromptBlock",
    "SafetyPromptFlag",
    "SignedOut",
    "Standing",
    "Status",
    "StoredConversation",
    "StoredMessage",
    "Text",
    "TextTakenBack",
    "TooManyTokens",
    "Trace",
    "Usage",
    "error_text",
    "redacted",
]
