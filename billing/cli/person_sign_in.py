"""Signs a person in at this terminal for one operation, and out again."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from billing.people.actors import actor_of_session
from billing.people.person_sessions import author_of, end_person_session
from billing.people.sign_in import SignIns
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.units import Stores
from core.terminal.terminal import prompt_line, prompt_secret

HERE = "127.0.0.1"  # the address that tries are counted by


@asynccontextmanager
async def person_at_terminal(stores: Stores, agent: str) -> AsyncGenerator[OperationActor]:
    """Ask for a person's e-mail, password, and code where they set up a second factor; yield them in a
    session that ends with the block. Raises Refused for a wrong one."""
    email, password = prompt_line("E-mail of the second person"), prompt_secret("Password")
    sign_ins = SignIns(stores.settings, stores.db, stores.redis)
    who = (await sign_ins.by_password(email, password, HERE, agent)).signed_in
    try:
        if who.person.totp_hidden is not None:
            await sign_ins.second_factor(who, prompt_secret("Code of the second factor"), HERE)
        yield actor_of_session(who, loopback=True)  # a code was shown, where there is one
    finally:
        author = author_of(who.person, who.session.tenant_id)
        await end_person_session(stores.db, who.session.tenant_id, who.session.id, author=author)
