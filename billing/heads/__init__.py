"""How far chains went, kept outside of the database."""
