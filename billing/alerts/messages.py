"""Texts of alerts, for mails and lists. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from billing.alerts.report_mail import REPORT_READY, report_text

NAME_CHARS_MAX = 80


def mail_text(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Subject and text of a message."""
    if payload.get("type") == REPORT_READY:
        return report_text(payload)
    said = _one_line(summary(payload))
    lines = [
        f"{name}: {value}" for name, value in payload.items() if not str(name).endswith(("_nano", "_ms"))
    ]
    lines += [
        f"{name.removesuffix('_ms')}: {_time(value)}"
        for name, value in payload.items()
        if str(name).endswith("_ms")
    ]
    return f"Parley: {said}", "\n".join([said, "", *(_one_line(line) for line in lines)]) + "\n"


def summary(payload: Mapping[str, Any]) -> str:
    """Summarise an alert in one line."""
    match payload.get("type"):
        case "budget.threshold":
            whose = f"{payload['scope']} {str(payload['scope_id'])[:NAME_CHARS_MAX]}".strip()
            spent = f"{payload['spent_usd']} of {payload['limit_usd']} USD"
            return f"{payload['threshold']} % of the {payload['period']} budget of {whose}: {spent} spent"
        case "wallet.low":
            left = f"{payload['left_usd']} USD left, the last top-up was {payload['top_up_usd']} USD"
            return f"the wallet is low: {left}"
        case "usage.unbilled":
            share = f"{payload['tokens']} of {payload['of_tokens']} output tokens of a day"
            return f"{share} are not billed in pool {str(payload['pool'])[:NAME_CHARS_MAX]}"
        case "month.left_open":
            return f"{payload['month']} of tenant {payload['of_tenant']} is not closed: {payload['why']}"
        case "report.ready":
            return f"the chargeback report of {payload['period']} is ready"
        case "test":
            return "this is a test of an alert's way to you"
        case other:
            return str(other)


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:500]


def _time(unix_ms: int) -> str:
    try:
        return datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(unix_ms)
