"""The language server and the `midfill` command."""
