"""Origins of a key: listed, edited, kept by its successor, and where links may sign in."""

from dataclasses import replace

import pytest

from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.operations import keys
from billing.operations.audit import ListAudit, list_audit
from billing.operations.keys import CreateKey, EditKey, LinkKey, NameKey, RotateKey
from billing.tenants import tenancy
from billing.tenants.erasure import erase_tenant
from billing.tenants.keys import authenticate_key
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.operations import Role
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.tables import tables_with

APP, DEV = "https://app.acme.example", "http://localhost:5173"


async def test_origins_are_kept_as_browsers_send_them_and_rotated_with_the_key(stores: Stores) -> None:
    """Each once, in their order; the audit log has the edit, by a developer as by others."""
    ask = CreateKey(tenant="acme", origins=["HTTPS://App.acme.example:443/", DEV, APP])
    made = await answer_of(keys.create_key, stores, OWNER, ask)
    assert made.key.origins == [APP, DEV]
    principal = await authenticate_key(stores.db, made.secret.shown)
    assert principal is not None
    assert principal.origins == (APP, DEV)
    named = NameKey(tenant="acme", key=made.key.key)
    rotated = await answer_of(keys.rotate_key, stores, OWNER, RotateKey(tenant="acme", key=made.key.key))
    assert rotated.key.origins == [APP, DEV]
    developer = member_of(made.key.tenant, Role.DEVELOPER)
    edit = EditKey(tenant="acme", key=made.key.key, origins=[DEV])
    assert (await answer_of(keys.edit_key, stores, developer, edit)).origins == [DEV]
    assert (await answer_of(keys.show_key, stores, OWNER, named)).origins == [DEV]
    last = (await list_rows(stores.db, made.key.tenant))[0]
    assert (last.action, last.before, last.after) == (
        "key.edit",
        f'{{"origins":["{APP}","{DEV}"]}}',
        f'{{"origins":["{DEV}"]}}',
    )
    assert (await compare_states(stores.db, made.key.tenant)).faults == []


async def test_a_key_without_origins_is_anybodys(stores: Stores) -> None:
    """Also after all were taken away, and where a process that knows none made it; an edit of something else
    leaves them, and one that changes nothing leaves no row."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", origins=[APP]))
    renamed = EditKey(tenant="acme", key=made.key.key, name="web")
    assert (await answer_of(keys.edit_key, stores, OWNER, renamed)).origins == [APP]
    freed = EditKey(tenant="acme", key=made.key.key, origins=[])
    assert (await answer_of(keys.edit_key, stores, OWNER, freed)).origins == []
    principal = await authenticate_key(stores.db, made.secret.shown)
    assert principal is not None
    assert principal.origins == ()
    before = len(await list_rows(stores.db, made.key.tenant))
    await answer_of(keys.edit_key, stores, OWNER, freed)
    assert len(await list_rows(stores.db, made.key.tenant)) == before


@pytest.mark.parametrize(
    ("origins", "says"),
    [
        (["https://app.acme.example/chat"], "no path"),
        ([APP, "null"], "sandboxed"),
        ([f"https://a{n}.acme.example" for n in range(21)], "20 origins at most"),
    ],
)
async def test_what_is_no_list_of_origins_is_refused(stores: Stores, origins: list[str], says: str) -> None:
    """In making a key and in editing it, which then stays as it was."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", origins=[APP]))
    for run, ask in (
        (keys.create_key, CreateKey(tenant="acme", origins=origins)),
        (keys.edit_key, EditKey(tenant="acme", key=made.key.key, origins=origins)),
    ):
        refusal = await refusal_of(run, stores, OWNER, ask)
        assert (refusal.field, says in refusal.message) == ("origins", True)
    named = NameKey(tenant="acme", key=made.key.key)
    assert (await answer_of(keys.show_key, stores, OWNER, named)).origins == [APP]


async def test_how_many_is_a_setting(stores: Stores) -> None:
    """The operator's."""
    few = replace(stores, settings=stores.settings.model_copy(update={"origins_per_key_max": 1}))
    refusal = await refusal_of(keys.create_key, few, OWNER, CreateKey(tenant="acme", origins=[APP, DEV]))
    assert "1 origins at most (PARLEY_ORIGINS_PER_KEY_MAX)" in refusal.message


async def test_a_link_signs_in_where_the_key_works(stores: Stores) -> None:
    """One for a page that may not use the key is refused before anybody opens it in vain."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", origins=[APP]))
    ask = LinkKey(tenant="acme", key=made.key.key, user="ann", url="https://app.acme.example:443/")
    assert (await answer_of(keys.link_key, stores, OWNER, ask)).link.shown.startswith("https://app.acme")
    for url in ("https://chat.acme.example", "https://app.acme.example.evil.example", ""):
        refusal = await refusal_of(
            keys.link_key, stores, OWNER, LinkKey(tenant="acme", key=made.key.key, user="ann", url=url)
        )
        assert (refusal.field, "may not use" in refusal.message) == ("url", True)


async def test_an_erased_tenants_origins_are_nowhere_but_in_the_chained_log(stores: Stores) -> None:
    """They tell whose keys these were."""
    made = await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", origins=[APP]))
    await tenancy.close_tenant(stores.db, stores.redis, made.key.tenant)
    await erase_tenant(stores.db, made.key.tenant)
    assert await tables_with(stores.db, APP) <= {"audit_log"}
    told = await answer_of(list_audit, stores, OWNER, ListAudit(tenant=made.key.tenant))
    assert "app.acme" not in repr(told)
    assert len(told.items) > 2
