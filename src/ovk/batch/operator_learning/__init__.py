"""Maps from functions to functions: ridge regression between coordinates, everything chosen by leaving out."""
