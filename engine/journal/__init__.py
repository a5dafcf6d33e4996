"""A journal of ends beside Redis: what was ended and may not be billed yet, kept on this machine's disk."""
