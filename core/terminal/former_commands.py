"""Commands and options that had another name one version ago: the former is taken too, and shown nowhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class RenamedOption(click.Option):
    """An option that is taken under its former name, too."""

    def __init__(self, declarations: Sequence[str], former: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Known to the parser by both names, to help and messages by the new one."""
        shown = self.opts
        self.opts = [*shown, self.former]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


class RenamedCommands(click.Group):
    """A group, some of whose commands are taken under former names: `former`, to the new ones."""

    def __init__(self, *args: Any, former: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.former = former

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, new or former."""
        return super().get_command(ctx, self.former.get(cmd_name, cmd_name))
