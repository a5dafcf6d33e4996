"""What a browser's session is asked and answers, and its routes in the OpenAPI document. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=1000)]


class LinkSignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="link"):
    """A sign-in by the code of a link."""

    code: Text


class PasswordSignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="password"):
    """A sign-in by e-mail and password. `tenant`: where several are theirs."""

    email: Text
    password: Text
    totp: Text = ""
    tenant: Text = ""


class InvitationSignIn(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="invitation"
):
    """A sign-in by an invitation, which makes the person. `password`: of who has an account of the invited
    address already, and is not signed in here."""

    code: Text
    name: Text
    password: Text = ""


SignIn = LinkSignIn | PasswordSignIn | InvitationSignIn


class SecondFactor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The code that the person's authenticator shows."""

    totp: Text


class Me(msgspec.Struct, frozen=True):
    """Who calls. `may`: operations of their role; `csrf`: what a page sends as X-Parley-Csrf on writes;
    `second_factor`: whether writes wait for a code; `gateway`: the URL that keys are used at;
    `has_password`, `has_second_factor`: what they have set up."""

    side: str
    name: str
    email: str | None
    language: str | None
    tenant: str | None
    role: str
    may: list[str]
    csrf: str | None
    second_factor: Literal["shown", "needed"]
    gateway: str
    has_password: bool
    has_second_factor: bool


class EndedBrowser(msgspec.Struct, frozen=True):
    """The answer of a sign-out, which says nothing."""


@dataclass(frozen=True)
class SessionRoute:
    """A route that is no operation. `asks`: its body; `answers`: its answer, None for a stream."""

    method: str
    path: str
    sentence: str
    asks: Any = None
    answers: type[msgspec.Struct] | None = Me
    open: bool = False

    def described(self, refs: Mapping[object, Any], problems: Mapping[str, Any]) -> dict[str, Any]:
        """Its entry in the document. `refs`: schemas of what it asks and answers."""
        content = _STREAM if self.answers is None else {"application/json": {"schema": refs[self.answers]}}
        entry: dict[str, Any] = {
            "operationId": self.path.removeprefix("/").replace("-", "_"),
            "summary": self.sentence,
            "tags": ["session"],
            "responses": {"200": {"description": "Done.", "content": content}, **problems},
        }
        if self.asks is not None:
            body = {"application/json": {"schema": refs[self.asks]}}
            entry["requestBody"] = {"content": body, "required": True}
        if self.answers is None:
            entry["parameters"] = _FROM
        return entry | ({"security": []} if self.open else {})


_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
_FROM = [
    {"name": name, "in": where, "required": False, "schema": {"type": "string"}, "description": says}
    for name, where, says in (
        ("Last-Event-ID", "header", "The id of the last event that you have."),
        ("after", "query", "The same, where a header cannot be sent."),
    )
]
SESSION_ROUTES = (
    SessionRoute(
        "POST", "/sign-in", "Open a session, by a link, a password or an invitation.", SignIn, open=True
    ),
    SessionRoute("GET", "/me", "Show who calls, where, and what they may do."),
    SessionRoute("POST", "/second-factor", "Show a code of your second factor.", SecondFactor),
    SessionRoute("POST", "/sign-out", "End the session.", answers=EndedBrowser, open=True),
    SessionRoute("GET", "/changes", "Follow what changed, as server-sent events.", answers=None),
)
SESSION_TYPES: tuple[Any, ...] = (SignIn, Me, SecondFactor, EndedBrowser)
