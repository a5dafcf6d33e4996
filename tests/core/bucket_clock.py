"""A clock for buckets."""


class BucketClock:
    """Stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
