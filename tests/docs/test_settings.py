"""Each setting has a sentence, and docs/settings.md shows it with its default and limits (`make check`)."""

from core.configuration.settings import Settings
from scripts.settings_table import PAGE, SettingText, main, page_of, problems_of, takes, texts_in

FIELDS = Settings.model_fields
SOURCE = '''class Some(SettingsPart):
    """About it."""

    # Doors
    port: Port = 8080
    """Port of
    a gateway."""
    host: str = ""

    # Waits
    stuck_seconds: PauseOrNone = 30.0
    """Seconds until it is stuck; 0: at once."""
'''


def test_the_page_has_every_setting_with_its_sentence_default_and_limits():
    """One without a sentence, or shown with another default, fails."""
    assert main(check=True) == 0
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `PARLEY_")]
    assert len(rows) == len(FIELDS)


def test_a_sentence_stands_under_its_setting_in_its_section():
    """Broken lines are joined; what has none says so by an empty one."""
    assert texts_in(SOURCE) == [
        SettingText("Doors", "port", "Port of a gateway."),
        SettingText("Doors", "host", ""),
        SettingText("Waits", "stuck_seconds", "Seconds until it is stuck; 0: at once."),
    ]


def test_a_setting_without_a_sentence_and_a_zero_that_is_not_explained_are_named():
    """Where 0 is a number as others (a port's), nothing need be said of it."""
    texts = texts_in(SOURCE)
    fields = {text.name: FIELDS[text.name] for text in texts}
    assert problems_of(texts, fields) == ["PARLEY_HOST has no sentence"]
    assert problems_of(
        [SettingText("Waits", "stuck_seconds", "Seconds.")], {"stuck_seconds": FIELDS["stuck_seconds"]}
    ) == ["PARLEY_STUCK_SECONDS may be 0, and its sentence does not say what 0 is"]


def test_a_row_says_what_may_be_set():
    """Bounds with their unit, words to choose from, and that a secret may come by a file."""
    told = {name: takes(name, FIELDS[name]) for name in ("port", "window_events", "maxmemory_fraction_max")}
    assert told == {"port": "≥ 0, ≤ 65535", "window_events": "≥ 1", "maxmemory_fraction_max": "> 0, ≤ 1"}
    assert takes("heartbeat_interval_ms", FIELDS["heartbeat_interval_ms"]) == "≥ 1 ms"
    assert takes("console_port", FIELDS["console_port"]) == "≥ 0, ≤ 65535"
    assert takes("tls", FIELDS["tls"]) == "`auto`, `on`"
    assert takes("deflate", FIELDS["deflate"]) == "`true`, `false`"
    assert takes("secret", FIELDS["secret"]) == "text, or `…_FILE`"


def test_what_is_written_by_hand_stays():
    """Only what follows the mark is made."""
    texts = texts_in(SOURCE)[:1]
    page = page_of("# Settings\n\nBy hand.\n", texts, {"port": FIELDS["port"]})
    assert page.startswith("# Settings\n\nBy hand.\n<!--")
    assert page.endswith("\n## Doors\n\n" + "\n".join(page.splitlines()[-3:]) + "\n")
    assert page.splitlines()[-1] == "| `PARLEY_PORT` | `8080` | ≥ 0, ≤ 65535 | Port of a gateway. |"
    assert page_of(page, texts, {"port": FIELDS["port"]}) == page
