"""The usage API: what a tenant's own services read of its usage and costs."""
