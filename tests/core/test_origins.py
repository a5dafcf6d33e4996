"""Lists of web pages' origins: what may stand there, in which form, and what a browser's Origin matches."""

import pytest

from core.errors import Refused
from core.network.origins import checked_origin, is_listed


def ascii_beginning(text: str) -> str:
    """A name of a case that is not too long."""
    return ascii(text[:50])


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("https://app.acme.example", "https://app.acme.example"),
        ("HTTPS://App.ACME.example/", "https://app.acme.example"),
        ("https://app.acme.example:443", "https://app.acme.example"),
        ("http://app.acme.example:80", "http://app.acme.example"),
        ("https://app.acme.example:80", "https://app.acme.example:80"),
        ("http://localhost:05173", "http://localhost:5173"),
        ("https://*.acme.example:8443", "https://*.acme.example:8443"),
        ("https://a_b.acme.example", "https://a_b.acme.example"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://*.faß.example", "https://*.xn--fa-hia.example"),
        ("https://XN--bcher-kva.example", "https://xn--bcher-kva.example"),
        ("http://127.0.0.1:5173", "http://127.0.0.1:5173"),
        ("http://[0:0::1]:5173", "http://[::1]:5173"),
        ("http://[::FFFF:127.0.0.1]", "http://[::ffff:7f00:1]"),
    ],
)
def test_an_origin_is_kept_as_browsers_send_it(typed: str, kept: str):
    """Whoever lists one need not know that form; and what is kept is kept the same again."""
    assert checked_origin(typed, "origins") == kept
    assert checked_origin(kept, "origins") == kept
    assert "*" in kept or is_listed(kept, [kept])


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("null", "sandboxed frames"),
        ("*", "list none"),
        ("", "begins with https://"),
        ("app.acme.example", "begins with https://"),
        ("//app.acme.example", "begins with https://"),
        ("ftp://app.acme.example", "begins with https://"),
        ("javascript://app.acme.example", "begins with https://"),
        ("chrome-extension://abcdef", "begins with https://"),
        (" https://app.acme.example", "begins with https://"),
        ("https://app.acme.example/path", "no path"),
        ("https://app.acme.example//", "no path"),
        ("https://app.acme.example?a=b", "no path"),
        ("https://app.acme.example#top", "no path"),
        ("https://app.acme.example\\@evil.example", "no path"),
        ("https://app.acme.example@evil.example", "all but the host"),
        ("https://user:word@app.acme.example", "all but the host"),
        ("https://app.acme.example evil", "all but the host"),
        ("https://app.acme.example\n", "all but the host"),
        ("https://app.acme.example:", "all but the host"),
        ("https://app.acme.example:http", "all but the host"),
        ("https://[fe80::1%25eth0]", "all but the host"),
        ("https://::1", "all but the host"),
        ("https://app.acme.example:0", "1 to 65535"),
        ("https://app.acme.example:65536", "1 to 65535"),
        ("https://app.acme.example.", "dot at the end"),
        ("https://app..acme.example", "no domain name"),
        ("https://-app.acme.example", "no domain name"),
        ("https://app\x00.acme.example", "no domain name"),
        ("https://" + "a" * 64 + ".example", "no domain name"),
        ("https://" + ".".join(["a" * 62] * 4) + ".ex", "no domain name"),
        ("https://\u202eapp.example", "no domain name"),
        ("https://\ud800.example", "no domain name"),
        ("https://127.1", "no domain name"),
        ("https://0x7f.0.0.1", "no domain name"),
        ("https://１27.1", "no domain name"),
        ("https://[::1::]", "no domain name"),
        ("https://*", "first label"),
        ("https://app.*.example", "first label"),
        ("https://*app.acme.example", "first label"),
        ("https://*.*.acme.example", "first label"),
        ("https://*.example", "two labels"),
        ("https://*.0.0.1", "two labels"),
        ("https://" + "a" * 10_000, "longer than 300"),
    ],
    ids=ascii_beginning,
)
def test_what_is_no_origin_is_refused_in_words(typed: str, says: str):
    """Each says what to do about it, and what was typed is repeated in a form that harms no terminal."""
    with pytest.raises(Refused) as refused:
        checked_origin(typed, "origins")
    refusal = refused.value.refusal
    assert says in refusal.message
    assert (refusal.field, refusal.message.isascii(), len(refusal.message) < 400) == ("origins", True, True)


LISTED = ["https://app.acme.example", "https://*.acme.dev:8443", "http://localhost:5173", "http://[::1]:5173"]


@pytest.mark.parametrize("sent", [*LISTED[:1], *LISTED[2:], "https://pr-7.acme.dev:8443"])
def test_a_listed_page_is_let_in(sent: str):
    """One label stands for the star."""
    assert is_listed(sent, LISTED)


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "null",
        "*",
        "http://app.acme.example",
        "https://acme.example",
        "https://app.acme.example.evil.example",
        "https://evil.example/https://app.acme.example",
        "https://app.acme.example@evil.example",
        "https://evil.example#https://app.acme.example",
        "https://app.acme.example:443",
        "https://app.acme.example:444",
        "https://app.acme.example.",
        "https://app.acme.example/",
        "https://APP.acme.example",
        "HTTPS://app.acme.example",
        "https://evilapp.acme.example",
        "https://app.acme.example https://app.acme.example",
        "https://app.acme.example, https://evil.example",
        "https://app.acme.example\x00",
        "https://аpp.acme.example",
        "https://*.acme.dev:8443",
        "https://.acme.dev:8443",
        "https://a.b.acme.dev:8443",
        "https://a.acme.dev",
        "https://acme.dev:8443",
        "https://evil.example/.acme.dev:8443",
        "https://user@.acme.dev:8443",
        "https://evil.example:1@x.acme.dev:8443",
        "https://A.acme.dev:8443",
        "https://a.acme.dev:8443.evil.example",
        "https://" + "a" * 64 + ".acme.dev:8443",
        "https://" + "a" * 100_000 + ".acme.dev:8443",
        "http://localhost:5174",
        "http://[0:0::1]:5173",
        "http://127.0.0.1:5173",
    ],
    ids=ascii_beginning,
)
def test_no_other_page_is(sent: str):
    """Nor what no browser sends, however like a listed one it looks."""
    assert not is_listed(sent, LISTED)
