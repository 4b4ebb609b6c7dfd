"""What goes wrong on the way to a server."""
