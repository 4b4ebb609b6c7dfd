"""Checks of the *export* boundary."""
