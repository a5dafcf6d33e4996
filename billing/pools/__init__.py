"""Dedicated pools: owners, ready GPU-seconds from heartbeats, commitments, what GPUs cost."""
