"""What may be used: limits, and the tenant slot in Redis that holds requests to them."""
