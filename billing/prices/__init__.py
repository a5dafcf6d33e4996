"""What things cost: price books and their versions, rating, tiers, commitments, the close of a period."""
