"""Where durable facts live."""
