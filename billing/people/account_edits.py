"""Edits of a person: the name, the e-mail address that they sign in with, and the language."""

import re

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from billing.audit.log import record
from billing.people.memberships import lock_people, no_member
from billing.people.persons import checked_email, email_taken, recorded_of
from billing.tables.people import Membership, Person
from billing.tables.tenants import PLATFORM
from core.errors import bad_request
from core.names import checked_name
from core.sql.database import Database

LANGUAGE = re.compile(r"([a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3})?", re.ASCII)


async def edit_person(
    db: Database,
    person_id: str,
    *,
    name: str | None = None,
    email: str | None = None,
    language: str | None = None,
) -> Person:
    """Change what is given of a person, closed ones too. Raises Refused where a fact is invalid, the address
    is somebody's, or the name would be another one of the staff, whom the audit log knows by it."""
    named = None if name is None else checked_name("name", name)
    given = {
        "name": named,
        "email": None if email is None else checked_email(email),
        "language": None if language is None else checked_language(language),
    }
    try:
        async with db.transaction() as session:
            await lock_people(session, PLATFORM)
            person = await session.get(Person, person_id, with_for_update=True)
            if person is None:
                raise no_member(person_id)
            facts = {key: value for key, value in given.items() if value not in (None, getattr(person, key))}
            staff = select(Membership.person_id).where(
                col(Membership.tenant_id) == PLATFORM, col(Membership.person_id) == person_id
            )
            if "name" in facts and (await session.exec(staff)).first() is not None:
                raise bad_request("a name of the staff stays: the audit log knows them by it", field="name")
            if facts:
                before = recorded_of(person)
                for key, value in facts.items():
                    setattr(person, key, value)
                session.add(person)
                after = {**recorded_of(person), "changed": sorted(facts)}
                await record(session, PLATFORM, "person.edit", person_id, before, after)
    except IntegrityError as error:
        raise email_taken() from error
    return person


def checked_language(language: str) -> str:
    """A language's tag; empty: none was chosen. Raises Refused. Pure."""
    if LANGUAGE.fullmatch(language) is None:
        raise bad_request("expected a language like `en` or `pt-BR`, or nothing", field="language")
    return language
