"""A desk at which `parley safety` is typed, and documents to set."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from billing.cli.projects import projects_command
from billing.cli.tenants import tenants_command
from core.actor import Author, acting_as
from core.errors import StartupError
from engine.cli.safety import command

BLOCKED = {"detectors": [{"name": "card", "version": 1, "action": "block"}]}
OWN = {
    "detectors": [{"name": "card", "action": "flag", "prompt": "block"}],
    "patterns": [{"name": "employee_id", "pattern": "EMP-[0-9]{6}", "action": "redact"}],
}


@dataclass
class Desk:
    """Types `parley safety …` about an installation with the tenant acme and its project web."""

    home: Path
    environment: dict[str, str]

    def run(self, *words: str, given: str | None = None, by: str = "ada") -> Result:
        """Type it; `given`: what is then typed, or comes in by a pipe."""
        with acting_as(Author(by, "command")):
            return CliRunner().invoke(command, words, env=self.environment, input=given)

    def good(self, *words: str, given: str | None = None) -> str:
        """What it prints on stdout; nothing goes wrong."""
        result = self.run(*words, given=given)
        assert result.exit_code == 0, (words, result.output, result.exception)
        return result.stdout

    def json(self, *words: str, given: str | None = None) -> Any:
        """The one object that it prints."""
        (line,) = self.good(*words, "--json", given=given).splitlines()
        return json.loads(line)

    def refused(self, *words: str, given: str | None = None) -> str:
        """Why it is not done."""
        return self.refusal(*words, given=given)[0]

    def refusal(self, *words: str, given: str | None = None) -> tuple[str, Any]:
        """The same, with what programs are told beside it."""
        result = self.run(*words, given=given)
        assert result.exit_code != 0, (words, result.output)
        error = result.exception
        assert isinstance(error, StartupError | SystemExit), error
        return (str(error), error.facts) if isinstance(error, StartupError) else (result.stderr, {})

    def file(self, document: Any) -> str:
        """A file with a document, or with a text."""
        path = self.home / "document.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)


def desk_at(home: Path, redis_url: str, sqlite_template: Path) -> Desk:
    """Nothing is set yet."""
    (home / "parley.db").write_bytes(sqlite_template.read_bytes())
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": redis_url}
    typed = CliRunner(env=environment)
    assert typed.invoke(tenants_command, ["create", "acme"]).exit_code == 0
    assert typed.invoke(projects_command, ["create", "--tenant", "acme", "web"]).exit_code == 0
    return Desk(home, environment)
