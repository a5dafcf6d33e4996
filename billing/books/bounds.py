"""What a correction may book at most: no more tokens than a request of its model can have, no more money than
one person may move alone."""

from dataclasses import dataclass

from sqlalchemy import column, func, select, table
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.money import NANO, to_display
from core.errors import bad_request
from core.settings import Settings

UNRECORDED_TOKENS_MAX = 1 << 20  # of a model that nobody recorded here
CENT_NANO = NANO // 100

# The engine's, which is above this package: only a fact of it is read.
_VERSIONS = table("model_version", column("fingerprint"), column("max_model_len"))


@dataclass(frozen=True)
class Bounds:
    """`unasked_nano`: what moves without a second look; `most_nano`: what one person moves at all."""

    unasked_nano: int
    most_nano: int

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        """An installation's."""
        return cls(
            settings.correction_unasked_cents_max * CENT_NANO, settings.correction_cents_max * CENT_NANO
        )

    def check(self, nano: int) -> None:
        """Raises Refused where so much is more than one person moves."""
        if abs(nano) > self.most_nano:
            raise bad_request(
                f"this moves {to_display(abs(nano))}: one person moves at most {to_display(self.most_nano)} "
                "at once (PARLEY_CORRECTION_CENTS_MAX)"
            )


async def check_tokens(session: AsyncSession, fingerprint: str, wanted: int, before: int = 0) -> None:
    """Raises Refused where a request of a model cannot have so many tokens, its input and output together,
    nor had them `before`."""
    if wanted <= before:
        return
    statement = select(func.max(_VERSIONS.c.max_model_len)).where(_VERSIONS.c.fingerprint == fingerprint)
    context = (await (await session.connection()).execute(statement)).scalar()
    most = max(before, int(context or UNRECORDED_TOKENS_MAX))
    if wanted > most:
        raise bad_request(f"{wanted:,} tokens in all: a request of this model has at most {most:,} tokens")
