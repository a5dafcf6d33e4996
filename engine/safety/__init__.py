"""Mid-stream safety: what of an answer's text leaves the worker. Pure."""
