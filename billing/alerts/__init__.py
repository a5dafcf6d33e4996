"""What people are told: thresholds that were reached, and the outbox of webhooks and mail."""
