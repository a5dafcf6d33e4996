"""The safety filter against its definition, and what it costs."""
