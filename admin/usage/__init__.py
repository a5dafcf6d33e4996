"""The usage API, by which a tenant's own services read its usage and costs."""
