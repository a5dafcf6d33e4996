"""Prepaid money and budgets: grants and what they paid, sums of budgets' windows."""
