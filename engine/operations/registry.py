"""The operations of this package, for the entry point `parley.operations`."""

from engine.operations import migrating, requests, safety, workers

OPERATIONS = (*requests.OPERATIONS, *migrating.OPERATIONS, *workers.OPERATIONS, *safety.OPERATIONS)
