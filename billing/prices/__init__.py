"""Prices: books and their versions, rating, tiers, and true-ups."""
