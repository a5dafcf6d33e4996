"""What was used and is owed: lines, the ledger with its hash chain, rollups, reports, corrections."""
