"""Money that people move by hand: one look before, one way to book it."""
