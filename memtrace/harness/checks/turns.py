"""Checks of the *turns* boundary."""
