"""Lists in settings: values with commas between."""


def listed(text: str) -> list[str]:
    """The values, without the space around them; what is empty between commas is none. Pure."""
    return [each.strip() for each in text.split(",") if each.strip()]
