"""What a command says that refuses."""

from click.testing import Result

from core.errors import StartupError
from tests.billing.cli.commands import parley as parley  # the fixture


def refused(result: Result) -> str:
    """The one line of a command that was refused."""
    assert isinstance(result.exception, StartupError), (result.output, result.exception)
    assert "\n" not in str(result.exception)
    return str(result.exception)
