"""The resident worker: contexts, candidates, scheduling, sockets. Runs in a process of its own."""
