"""One-time links that sign a person in, in one of their memberships. Pure.

A link's code is sealed content: nobody who can write Redis or a table can forge one. Redis only has that it
was used.
"""

import secrets

import msgspec

from billing.tables.tenants import PLATFORM
from core.configuration.settings import Settings
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring
from core.web.local_urls import console_url, portal_url

PURPOSE = b"parley person link v1"
LINK_SECONDS = 3600
ID_BYTES = 12
LINK_MARK, INVITATION_MARK = "p", "i"  # what stands before a code in a URL's fragment


class PersonLink(msgspec.Struct, frozen=True, array_like=True):
    """Content of a link: its opener is signed in as the person, in this tenant (PLATFORM: as staff).
    `opens_by_ms` is Unix ms; `by`: the tenant's admin who made it, empty: staff did."""

    id: str
    person: str
    tenant: str
    opens_by_ms: int
    by: str = ""


_links = SealedContent(PersonLink, PURPOSE, lambda link: link.opens_by_ms)


def make_person_code(keyring: Keyring, person_id: str, tenant_id: str, now_ms: int, by: str = "") -> str:
    """A code that signs one browser in, once, within an hour. `by`: as PersonLink has it."""
    opens_by_ms = now_ms + LINK_SECONDS * 1000
    link = PersonLink(secrets.token_urlsafe(ID_BYTES), person_id, tenant_id, opens_by_ms, by)
    return _links.seal(link, keyring)


def read_person_code(code: str, keyring: Keyring, now_ms: int) -> PersonLink | None:
    """What a code says; None where it is forged, damaged or too old."""
    return _links.unseal(code, keyring, now_ms)


def link_url(settings: Settings, mark: str, code: str, tenant_id: str) -> str:
    """The URL at which a code is opened: the operators' console, or for a tenant's members that for tenants.
    The code stands in the fragment, which no server and no log sees."""
    url = console_url(settings) if tenant_id == PLATFORM else portal_url(settings)
    return f"{url}/#{mark}={code}"
