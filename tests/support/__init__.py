"""Real servers and waiting for tests."""
