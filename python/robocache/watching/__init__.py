"""Episodes that are converted while the next one is recorded: `robocache watch`. docs/recording.md explains it."""
