"""A journal of ends beside Redis: requests that ended and may not be billed yet, on this machine's disk."""
