"""The books and counters that must agree, compared."""
