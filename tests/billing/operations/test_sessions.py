"""Operations on signed-in browsers: whose they are, and who is told of their end."""

from billing.audit.log import list_rows
from billing.operations import keys, sessions
from billing.operations.keys import CreateKey
from billing.operations.sessions import EndSessions, ListSessions
from billing.tenants.keys import authenticate_key
from billing.tenants.sessions import open_session, principal_of_session
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from tests.billing.operations.acting import OWNER, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture


async def signed_in(stores: Stores, user: str, browsers: int = 1) -> list[str]:
    """Sign a user of acme in: the browsers' tokens."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", user=user))
    principal = await authenticate_key(stores.db, made.secret.shown)
    assert principal is not None
    opened = [await open_session(stores.db, principal, stores.settings, "", "Lynx") for _ in range(browsers)]
    return [token for _, token, _ in opened]


async def test_browsers_of_another_tenant_are_unknown(stores: Stores) -> None:
    """To list and to end, by their id and by their user's name."""
    (token,) = await signed_in(stores, "ann")
    (listed,) = (await answer_of(sessions.list_sessions, stores, OWNER, ListSessions(tenant="acme"))).items
    assert (await answer_of(sessions.list_sessions, stores, OWNER, ListSessions(tenant="other"))).items == []
    for ask in (
        EndSessions(tenant="other", session=listed.session),
        EndSessions(tenant="other", user="ann"),
    ):
        assert (await refusal_of(sessions.revoke_sessions, stores, OWNER, ask)).unknown, ask
    assert await principal_of_session(stores.db, token) is not None


async def test_all_browsers_of_a_user_end_at_once_or_none(stores: Stores) -> None:
    """With an audit row for each; a dry run says how many, and ends none."""
    tokens = await signed_in(stores, "ann", browsers=3)
    ask = EndSessions(tenant="acme", user="ann")
    tried = await answer_of(sessions.revoke_sessions, stores, OWNER, ask, Terms(dry_run=True))
    assert (tried.ended, await principal_of_session(stores.db, tokens[0]) is not None) == (3, True)
    (tenant,) = {each.tenant for each in [await principal_of_session(stores.db, tokens[0])] if each}
    assert (await answer_of(sessions.revoke_sessions, stores, OWNER, ask)).ended == 3
    assert [await principal_of_session(stores.db, token) for token in tokens] == [None] * 3
    ended = [row for row in await list_rows(stores.db, tenant) if row.action == "session.end"]
    assert (len(ended), {row.author for row in ended}) == (3, {"Ann"})


async def test_one_of_session_and_user_is_named(stores: Stores) -> None:
    """Not both, and not neither: that would end everybody's."""
    for ask in (EndSessions(tenant="acme"), EndSessions(tenant="acme", session="s", user="ann")):
        assert (await refusal_of(sessions.revoke_sessions, stores, OWNER, ask)).field == "session"
