"""Alerts on thresholds, and the outbox of webhooks and mail."""
