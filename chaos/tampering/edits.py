"""What somebody who has the database and not the code may change in it: single edits, in SQL of SQLite. Pure.

Each is of a database as `filling.py` fills it; `{acme}` and `{beta}` are tenants' ids.
"""

from dataclasses import dataclass

ONE_EVENT = "WHERE tenant_id = '{acme}' AND request_id = 'acme-7'"
LAST_CHANGE = "(SELECT max(seq) FROM audit_log WHERE tenant_id = '{acme}')"
LAST_TXN = "(SELECT max(seq) FROM ledger_txn WHERE tenant_id = '{acme}')"


@dataclass(frozen=True)
class Edit:
    """One kind of edit: what is done, by statements of which the last one changes a row at least."""

    name: str
    statements: tuple[str, ...]


def _event(name: str, value: str) -> Edit:
    return Edit(f"a request's {name}", (f"UPDATE usage_event SET {name} = {value} {ONE_EVENT}",))


def _set(name: str, table: str, change: str, where: str = "tenant_id = '{acme}'") -> Edit:
    """Changes one row of a table."""
    chosen = f"rowid = (SELECT rowid FROM {table} WHERE {where} LIMIT 1)"
    return Edit(name, (f"UPDATE {table} SET {change} WHERE {chosen}",))


def _drop(name: str, table: str, where: str = "tenant_id = '{acme}'") -> Edit:
    """Deletes one row of a table."""
    chosen = f"rowid = (SELECT rowid FROM {table} WHERE {where} LIMIT 1)"
    return Edit(name, (f"DELETE FROM {table} WHERE {chosen}",))


def _copy(name: str, table: str, change: str, where: str = "tenant_id = '{acme}'") -> Edit:
    """Adds a row that is like another but for a change."""
    return Edit(
        name,
        (
            f"CREATE TEMP TABLE made AS SELECT * FROM {table} WHERE {where} LIMIT 1",
            f"UPDATE made SET {change}",
            f"INSERT INTO {table} SELECT * FROM made",
        ),
    )


REQUESTS = (
    _event("user_id", "'u_0123456789abcdef0123456789abcdef'"),
    _event("key_id", "'another'"),
    _event("project_id", "'another'"),
    _event("model", "'large'"),
    _event("pool", "'another'"),
    _event("conversation_id", "'another'"),
    _event("input_uncached", "input_uncached - 1"),
    _event("input_cached", "input_cached + 1"),
    _event("output_text", "output_text + 1"),
    _event("output_reasoning", "output_reasoning + 1"),
    _event("cost_nano", "cost_nano + 1"),
    _event("accepted_ms", "accepted_ms - 1"),
    _event("first_token_ms", "first_token_ms + 1"),
    _event("ended_ms", "ended_ms + 1"),
    _event("reason", "'cancelled'"),
    _event("code", "'internal'"),
    _event("price_version", "price_version + 1"),
    _event("currency", "'eur'"),
    _event("claims", "claims + 1"),
    _event("policy_sha256", "'another'"),
    _event("priority_class", "'bulk'"),
    _event("trace_id", "'another'"),
    _event("safety_verdicts", '\'{{"email": {{"flag": 9}}}}\''),
    _event("phases", "'[[\"queued\", 0]]'"),
    _event("request_metadata", '\'{{"ticket": "another"}}\''),
    Edit("a request that was deleted", (f"DELETE FROM usage_event {ONE_EVENT}",)),
    _copy("a request that was made up", "usage_event", "request_id = 'forged'"),
    _event("tenant_id", "'{beta}'"),
    Edit(
        "two requests changed for one another",
        (
            f"UPDATE usage_event SET request_id = 'x' {ONE_EVENT}",
            f"UPDATE usage_event SET request_id = 'acme-7' {ONE_EVENT.replace('acme-7', 'acme-8')}",
            "UPDATE usage_event SET request_id = 'acme-8' WHERE tenant_id = '{acme}' AND request_id = 'x'",
        ),
    ),
    Edit(
        "labels taken away as if erased",
        (
            "UPDATE usage_event SET request_metadata = '{{}}', words_proof = substr(words_proof, 1, 65) "
            + ONE_EVENT,
        ),
    ),
)
BOOKS = (
    _set("a line's amount", "usage_line", "amount_nano = amount_nano + 1", "number = 1"),
    _set("a line's quantity", "usage_line", "quantity = quantity + 1", "number = 1"),
    _set("a line's request", "usage_line", "request_id = 'another'", "number = 1"),
    _set("a line's cost center", "usage_line", "cost_center_id = 'another'"),
    _set("a line's proof", "usage_line", "proof = ''", "proof <> ''"),
    _drop("a line that was deleted", "usage_line", "number = 2"),
    _copy("a line that was made up", "usage_line", "seq = 9999, request_id = 'forged'"),
    _set("an entry's amount", "ledger_entry", "amount_nano = amount_nano - 1"),
    _set("an entry's account", "ledger_entry", "account = 'revenue:request'", "account = 'revenue:output'"),
    _drop("an entry that was deleted", "ledger_entry"),
    _set("when a transaction was booked", "ledger_txn", "posted_ms = posted_ms - 1"),
    _set("a transaction's kind", "ledger_txn", "kind = 'adjust'", "kind = 'usage'"),
    _set("a transaction's version", "ledger_txn", "hash_version = 1"),
    Edit(
        "two transactions changed for one another",
        tuple(
            f"UPDATE ledger_txn SET seq = {to} WHERE tenant_id = '{{acme}}' AND seq = {was}"
            for was, to in ((1, 999), (2, 1), (999, 2))
        ),
    ),
    Edit(
        "the last transaction that was deleted",
        (
            f"DELETE FROM ledger_entry WHERE tenant_id = '{{acme}}' AND txn_seq = {LAST_TXN}",
            f"DELETE FROM ledger_txn WHERE tenant_id = '{{acme}}' AND seq = {LAST_TXN}",
        ),
    ),
    _set("the end of the books", "ledger_head", "txn_seq = txn_seq - 1"),
    _set("how far rollups go", "ledger_head", "rolled_seq = rolled_seq - 1"),
    _set("a rollup's user", "rollup_hour", "user_id = 'another'"),
    _set("a rollup's hour", "rollup_hour", "hour_ms = hour_ms + 36000000"),
    _set("a rollup's key", "rollup_hour", "key_id = 'another'"),
    _set("a rollup's model", "rollup_hour", "model = 'another'"),
    _set("a rollup's amount", "rollup_hour", "amount_nano = amount_nano + 1"),
    _set("a rollup's tokens", "rollup_hour", "output_text = output_text + 1"),
    _drop("a rollup that was deleted", "rollup_hour"),
    _copy("a rollup that was made up", "rollup_hour", "user_id = 'forged'"),
    _set("a price rollup's version", "rollup_price", "price_version = price_version + 1"),
    _set("a price rollup's kind", "rollup_price", "kind = 'adjust'"),
    _set("a price rollup's amount", "rollup_price", "amount_nano = amount_nano + 1"),
    _drop("a price rollup that was deleted", "rollup_price", "tenant_id = '{acme}' AND quantity > 0"),
    _set("a charge's model", "charge", "model = 'another'"),
    _set("a charge's month", "charge", "start_ms = start_ms + 1"),
    _drop("a charge that was deleted", "charge"),
)
ADMINISTERED = (
    _set("a grant's amount", "wallet_grant", "amount_nano = amount_nano + 1", "tenant_id = '{beta}'"),
    _set("what is left of a grant", "wallet_grant", "left_nano = left_nano + 1", "tenant_id = '{beta}'"),
    _set("when a grant ends", "wallet_grant", "expires_ms = 4102444800000", "tenant_id = '{beta}'"),
    _drop("a grant that was deleted", "wallet_grant", "tenant_id = '{beta}'"),
    _copy(
        "a grant that was made up",
        "wallet_grant",
        "id = 'forged', idempotency_key = 'x'",
        "tenant_id = '{beta}'",
    ),
    _set("which grant paid", "wallet_use", "amount_nano = amount_nano + 1", "tenant_id = '{beta}'"),
    _set("what a wallet has posted", "wallet", "posted_nano = posted_nano - 1", "tenant_id = '{beta}'"),
    _set("what a budget has spent", "budget_spent", "spent_nano = 0", "spent_nano > 0"),
    _set("a budget's limit", "budget", "limit_nano = limit_nano * 2"),
    _drop("a budget that was deleted", "budget"),
    _set("a limit", "quota_policy", "limit_units = limit_units + 1"),
    _set("a price", "price", "output_nano = 1", "book_id = 'silver'"),
    _set("a tier's minimum", "price_tier", "minimum_nano = 0", "book_id = 'silver'"),
    _set("a tier", "price_tier", "tiers = '[]'", "book_id = 'silver'"),
    _set("when prices begin", "price_version", "valid_from_ms = 1", "book_id = 'silver'"),
    _drop("a price that was deleted", "price", "book_id = 'silver'"),
    _set("a tenant's price book", "tenant", "price_book_id = 'default'", "name = 'acme'"),
    _set("a tenant's time zone", "tenant", "time_zone = 'Asia/Tokyo'"),
    _set("when a tenant was closed", "tenant", "closed_ms = 1"),
    _set("a tenant's terms", "pool_terms", "weight = 9"),
    _set("a key's scopes", "api_key", "scopes = '[\"usage:read:tenant\"]'"),
    _set("a key's end", "api_key", "revoked_ms = NULL", "revoked_ms IS NOT NULL"),
    _copy("a key that was made up", "api_key", "id = 'forged', prefix = 'forged'"),
    _set("a project's cost center", "project_cost_center", "cost_center_id = 'another'"),
    _set("what a tenant committed to", "period_commitment", "committed_nano = 0"),
    _set("a closed month", "period_close", "amount_nano = 0"),
    _set("a safety policy's document", "safety_policy", "document = replace(document, 'block', 'flag')"),
    _set("a safety policy's hash", "safety_policy", "sha256 = 'another'"),
    _set("when a safety policy was set", "safety_policy", "created_ms = 1"),
    _drop("a safety policy that was deleted", "safety_policy"),
    _copy("a safety policy that was made up", "safety_policy", "version = 2"),
    _set("whose a pool was", "pool_owner", "tenant_id = '{beta}'", "1"),
    _set("whose a pool is", "pool", "tenant_id = '{beta}'", "1"),
    _set("a pool's workers", "pool", "workers = 9", "1"),
    _set("a pool's version", "pool", "version = 'another'", "1"),
    _set("who is let into a pool", "pool_admission", "created_ms = 1", "1"),
    _drop("a pool that lets somebody in no more", "pool_admission", "1"),
)
LAST_CHANGE_CUT_OFF = (
    f"DELETE FROM audit_state WHERE tenant_id = '{{acme}}' AND seq = {LAST_CHANGE}",
    f"DELETE FROM audit_log WHERE tenant_id = '{{acme}}' AND seq = {LAST_CHANGE}",
    "UPDATE audit_head SET (seq, sha256) = (SELECT seq, sha256 FROM audit_log WHERE tenant_id = "
    "'{acme}' ORDER BY seq DESC LIMIT 1) WHERE tenant_id = '{acme}'",
)
ROLLBACK_MADE_UP = """
{{"installation": "parley", "restored_ms": 4102444800000, "made_ms": 1, "backup_sha256": "x",
"part": 1, "parts": 1, "mac": "",
"rollbacks": [{{"chain": "changes", "tenant": "{acme}", "restored": 0, "newest": 999}}]}}
"""
RESTORE_MADE_UP = (
    "INSERT INTO audit_log (tenant_id, seq, at_ms, author, source, action, target, before, after, "
    "previous_sha256, states_sha256, sha256) SELECT '', seq + 1, 4102444800000, 'x', 'command', "
    f"'installation.restore', 'parley', 'null', '{ROLLBACK_MADE_UP}', sha256, '', 'x' FROM audit_head "
    "WHERE tenant_id = ''",
    "UPDATE audit_head SET seq = seq + 1, sha256 = 'x' WHERE tenant_id = ''",
)
CHANGES = (
    _set("who made a change", "audit_log", "author = 'somebody else'"),
    _set("when a change was made", "audit_log", "at_ms = at_ms + 1"),
    _set("what a change said", "audit_log", "after = '{{}}'", "after <> '{{}}'"),
    _drop("a change that was deleted", "audit_log"),
    _copy("a change that was made up", "audit_log", "seq = 999"),
    Edit("the last change, deleted with its head", LAST_CHANGE_CUT_OFF),
    Edit("the last change, deleted by a restore that was made up", (*LAST_CHANGE_CUT_OFF, *RESTORE_MADE_UP)),
    _set("what a change left", "audit_state", "state = '{{}}'", "state <> '{{}}'"),
    _drop("a state that was deleted", "audit_state"),
)
EDITS = (*REQUESTS, *BOOKS, *ADMINISTERED, *CHANGES)
