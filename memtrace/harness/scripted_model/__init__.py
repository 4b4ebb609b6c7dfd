"""The model that the harness gives a system: it says what the script says, and is the witness of what it was sent."""
