"""What the fact stores cost, beside the bare drivers and beside the published SDK, in one run."""
