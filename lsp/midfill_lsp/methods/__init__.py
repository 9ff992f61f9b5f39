"""The server's methods, one file for each LSP method or for a few that belong together."""
