"""Online learning with expert advice."""
