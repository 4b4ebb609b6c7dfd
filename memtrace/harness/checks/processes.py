"""Checks of the *processes* boundary."""
