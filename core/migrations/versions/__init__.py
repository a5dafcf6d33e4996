"""One file a version, static: a version never imports a table of today."""
