"""Checks of the *authors* boundary."""
