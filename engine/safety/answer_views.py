"""Decides how the filter looks at an answer that was asked to have a shape. Pure."""

from engine.grammar.response_format import format_of
from engine.safety.constrained_names import ConstrainedNames, constrained_names
from engine.safety.json_view import JsonView, Units, encodable


class FixedView:
    """One answer of which nothing may be replaced: every code point is in place -1."""

    def feed(self, text: str, final: bool = False) -> Units:
        """All of what is fed, at once."""
        return Units(encodable(text), list(text), [-1] * len(text))


View = JsonView | FixedView


def view_for(response_format: str | None) -> View | None:
    """The view of a packed shape, as `checked_format` made it; None: plain text, seen as it is."""
    if response_format is None:
        return None
    shape = format_of(response_format)
    if shape.object:
        return JsonView(ConstrainedNames())
    if shape.pattern is not None or shape.choices:
        return FixedView()
    return JsonView(constrained_names(shape.schema))
