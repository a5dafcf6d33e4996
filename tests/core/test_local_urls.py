"""Where people are sent."""

import json
import os
from pathlib import Path

import pytest

from core.files import file_lock
from core.web.local_urls import console_url, gateway_url, portal_url, url_at
from tests.support.home import settings_in


def test_links_lead_to_the_up_that_runs(home: Path):
    """With other ports than this command's settings say; what an ended one left behind counts no more."""
    settings = settings_in(home, port=8080)
    by_settings = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
    assert (gateway_url(settings), console_url(settings)) == by_settings
    local = "http://127.0.0.1"
    up = {"url": f"{local}:18480", "console": f"{local}:18481", "portal": f"{local}:18482"}
    (home / "up.json").write_text(json.dumps(up))
    lock = file_lock.acquire(home / "up.lock", 0)
    assert lock is not None
    assert (gateway_url(settings), console_url(settings)) == (up["url"], up["console"])
    assert portal_url(settings) == up["portal"]
    (home / "up.json").write_text("[]")
    assert (gateway_url(settings), console_url(settings)) == by_settings
    (home / "up.json").write_text(json.dumps(up))
    here, there = "https://api.example.org", "https://portal.example.org"
    public = settings_in(home, port=8080, gateway_url=f"{here}/", portal_url=there)
    assert (gateway_url(public), portal_url(public)) == (here, there)
    os.close(lock)
    assert (gateway_url(settings), console_url(settings)) == by_settings


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://127.0.0.1:1"),
        ("::1", "http://[::1]:1"),
        ("chat.example", "http://chat.example:1"),
    ],
)
def test_a_bind_as_people_reach_it(bind: str, url: str):
    assert url_at(bind, 1) == url
