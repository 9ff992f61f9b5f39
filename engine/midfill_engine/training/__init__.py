"""Training the embedded model's adapter: from packages of source code to an adapter file."""
