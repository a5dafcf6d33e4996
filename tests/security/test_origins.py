"""Which web pages may speak for whoever is signed in."""

import pytest
from starlette.requests import HTTPConnection

from core.configuration.settings import Settings
from server.access.authentication import origin_allowed
from server.access.key_origins import page_origins


def allowed(settings: Settings, scheme: str, origin: str | None, host: str = "chat.example.com") -> bool:
    """Whether a page of this origin may call a gateway that was asked over this scheme."""
    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin is not None else [])
    return origin_allowed(HTTPConnection({"type": "http", "scheme": scheme, "headers": headers}), settings)


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_page_without_tls_is_another_site(settings: Settings, scheme: str):
    """Anybody on its way could have written it."""
    assert allowed(settings, scheme, "https://chat.example.com")
    assert not allowed(settings, scheme, "http://chat.example.com")


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_without_tls_a_page_of_either_scheme_is_the_gateways_own(settings: Settings, scheme: str):
    """`parley up` over plain loopback, and a proxy that ends TLS and that no setting names."""
    assert allowed(settings, scheme, "http://127.0.0.1:8080", "127.0.0.1:8080")
    assert allowed(settings, scheme, "https://chat.example.com")
    assert allowed(settings, scheme, None)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://[",
        "https://chat.example.com.evil.example",
        "https://evil.example/chat.example.com",
        "https://user@chat.example.com",
        "https://chat.example.com:444",
        "ftp://chat.example.com",
        "javascript://chat.example.com",
        "//chat.example.com",
        "chat.example.com",
    ],
)
def test_other_pages_are_not(settings: Settings, origin: str):
    """Nor is what is no address at all."""
    assert not allowed(settings, "http", origin)
    assert not allowed(settings, "https", origin)


@pytest.mark.parametrize(
    ("scheme", "headers", "by_cookie", "seen"),
    [
        ("https", {"origin": "https://a.example"}, True, ("https://a.example",)),
        ("https", {"origin": "null", "sec-fetch-site": "same-origin"}, True, ("null",)),
        ("https", {}, False, ()),
        ("https", {"sec-fetch-site": "cross-site"}, False, ()),
        ("https", {"sec-fetch-site": "same-origin"}, False, ("https://chat.example.com",)),
        ("https", {}, True, ("https://chat.example.com",)),
        ("http", {}, True, ("http://chat.example.com", "https://chat.example.com")),
    ],
)
def test_a_page_says_its_origin_or_is_the_gateways_own(
    scheme: str, headers: dict[str, str], by_cookie: bool, seen: tuple[str, ...]
):
    """What keys of web pages are compared with."""
    told = {"host": "chat.example.com"} | headers
    asked = [(name.encode(), value.encode()) for name, value in told.items()]
    caller = HTTPConnection({"type": "http", "scheme": scheme, "headers": asked})
    assert page_origins(caller, by_cookie) == seen


def test_listed_ones_are(settings: Settings):
    """As they are written, over either scheme."""
    listed = settings.model_copy(update={"public_origins": "http://old.example, https://new.example/"})
    assert allowed(listed, "https", "http://old.example")
    assert allowed(listed, "https", "https://new.example")
    assert not allowed(listed, "https", "http://new.example")
