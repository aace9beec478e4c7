"""Second-order learners: ridge regression along a stream, in exact blocks."""
