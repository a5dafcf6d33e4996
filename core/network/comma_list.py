"""Lists in settings: values with commas between."""


def split_list(text: str) -> list[str]:
    """The values, without the space around them and without empty ones. Pure."""
    return [each.strip() for each in text.split(",") if each.strip()]
