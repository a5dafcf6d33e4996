"""Operations on service tokens, which scripts show instead of signing in."""

from sqlmodel import col, select

from billing.operations.people import MANAGERS, NOT_BY_TOKEN, chain_of
from billing.operations.people_facts import CreateToken, NameToken, NewToken, TokenFacts, WhichPeople
from billing.operations.tenants import AUDIT
from billing.people import service_tokens
from billing.tables.people import ServiceToken
from billing.unit_of_work.listing import listed_page
from billing.unit_of_work.units import Change, Look
from core.errors import bad_request
from core.operations import ListedPage, Secret, Uses, operation


@operation(
    "tokens.create",
    "POST /tokens",
    may=MANAGERS,
    audit="token.create",
    reason=True,
    uses=Uses(writes=f"tenant service_token {AUDIT}"),
)
async def create_token(change: Change, ask: CreateToken) -> NewToken:
    """Make a token for scripts. Its secret is shown this once: only a hash of it is stored."""
    if change.who.id and not change.who.session:
        raise bad_request(NOT_BY_TOKEN)
    chain = await chain_of(change, ask.tenant)
    row, secret = await service_tokens.create_token(
        change.db, chain, ask.name, ask.role, ask.days, change.who.id, change.settings.tokens_per_tenant_max
    )
    return NewToken(Secret(secret), TokenFacts.of(row))


@operation("tokens.list", "GET /tokens", may=MANAGERS, uses=Uses(reads="tenant service_token"))
async def list_tokens(look: Look, ask: WhichPeople) -> ListedPage[TokenFacts]:
    """List tokens, oldest first, with their last use; revoked ones too. Secrets cannot be shown again."""
    statement = select(ServiceToken).where(col(ServiceToken.tenant_id) == await chain_of(look, ask.tenant))
    return await listed_page(look, ask, statement, col(ServiceToken.id), TokenFacts.of)


@operation(
    "tokens.revoke",
    "POST /tokens/{token}/revoke",
    may=MANAGERS,
    audit="token.revoke",
    reason=True,
    uses=Uses(writes=f"tenant service_token {AUDIT}"),
)
async def revoke_token(change: Change, ask: NameToken) -> TokenFacts:
    """Refuse a token from now on."""
    chain = await chain_of(change, ask.tenant)
    return TokenFacts.of(await service_tokens.revoke_token(change.db, chain, ask.token.removeprefix("pt_")))


OPERATIONS = (create_token, list_tokens, revoke_token)
