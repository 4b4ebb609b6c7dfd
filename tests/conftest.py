"""What the project's own tests share."""

pytest_plugins = ["playing", "pytester"]
