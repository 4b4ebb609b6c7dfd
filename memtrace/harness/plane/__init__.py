"""The plane of curated facts that scripts use, and how it is in trouble."""
