"""A server seen from the other side: an editor without a screen that starts it and types."""
