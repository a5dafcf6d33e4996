"""CommonMark's own examples, as the chat page shows them."""

from pathlib import Path

from scripts.javascript import find_node, install
from tests.support.patience import START_SECONDS, finished

SCRIPT = Path(__file__).parents[2] / "scripts" / "markdown_spec.mjs"
LEAST = 0.98


def test_nearly_all_examples_without_html_are_as_the_standard_says():
    """What differs does so on purpose: bare addresses and images are links, definitions fit two lines."""
    node, npm = find_node()
    install(node, npm)
    done = finished([*node, "--no-warnings", str(SCRIPT)], START_SECONDS)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    passed, _, examples = done.stdout.split("\n")[0].split()
    assert int(examples) == 580
    assert int(passed) >= LEAST * int(examples)
