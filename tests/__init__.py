"""Tests mirror the packages; support holds the real servers they run against."""
