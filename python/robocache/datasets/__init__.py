"""Published datasets as recordings, which a replay takes as it takes bags. `kinds` has the kinds."""
