"""What benches measure by itself. Not in billing.api: no process but a biller posts."""

from billing.posting.biller import post

__all__ = ["post"]
