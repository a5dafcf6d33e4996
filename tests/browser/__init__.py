"""Tests that drive the chat page and its client in headless Chromium."""
