"""What happens in a script, recorded: events in one order, what follows from them, and how they are kept."""
