"""One batch under a few arms, drawn over time: what is held, what runs, and who has a seat."""
