"""Memories that are wrong on purpose, and memories that are odd but lawful: they show that the suite can fail."""
