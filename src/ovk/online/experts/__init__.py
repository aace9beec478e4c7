"""Learning from a stream by combining experts."""
