"""Episodes in memory, windows of them, and the order in which training takes these."""
