"""A head of the audit log."""

from billing.audit_heads.heads import Chain, ChainHead

HEAD = ChainHead("2026-11-22T13:00:00Z", "parley", Chain.CHANGES, "t1", 3, "ab")
