"""What builds the container image; the Dockerfile runs it."""
