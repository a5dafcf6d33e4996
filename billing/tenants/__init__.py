"""Who there is: tenants, projects, users, keys, plans, terms; and the record of what administrators did."""
