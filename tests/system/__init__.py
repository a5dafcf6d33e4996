"""The whole platform, started as a newcomer starts it, with a real model."""
