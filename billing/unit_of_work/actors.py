"""Who performs an operation: a command on this machine, a person with a session, or a token.

Pure but for `still`, which reads again what a session or a token may, before its change is committed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from core.actor import Author, current_author
from core.operations import Role

UNIX, TOKEN = "unix:", "token:"
Still = Callable[[AsyncSession], Awaitable[None]]


@dataclass(frozen=True)
class OperationActor:
    """Somebody with one role. `tenant`: of a member, the only tenant that exists for them; None: staff.
    `id`: the person's or the token's; empty for commands; `session`: the person's. `still` raises Refused
    where their session, token or role ended meanwhile. `remote`: they came over the API, and say why they
    change something. `second_factor` False: they have to show a code before they change anything."""

    author: Author
    role: Role
    tenant: str | None = None
    id: str = ""
    session: str = ""
    still: Still | None = None
    remote: bool = False
    second_factor: bool = True

    @property
    def proposes_as(self) -> str:
        """Who proposes what takes two people: the person's id, `token:ID`, or `unix:NAME` for a command."""
        if not self.id:
            return UNIX + self.author.name
        return self.id if self.session else TOKEN + self.id

    @property
    def caller(self) -> str:
        """Whose calls these are: keys and runs are of one caller."""
        return self.id or f"{self.author.source}:{self.author.name}"


def local_actor() -> OperationActor:
    """The command on this machine: it acts as owner, under the name that its author has."""
    return OperationActor(current_author(), Role.OWNER)
