"""Tests mirror the packages; helpers hold the real servers they run against."""
