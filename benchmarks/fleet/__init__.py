"""Several engines in virtual time: one dies in the middle of a batch, and one joins."""
