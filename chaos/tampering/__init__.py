"""Edits of a filled database past the commands, each of which the operators' own verification must find."""
