"""What runs as a server: the plane of curated facts."""
