"""Support vector machines that learn several tasks together."""
