"""What learners of a stream have in common."""
