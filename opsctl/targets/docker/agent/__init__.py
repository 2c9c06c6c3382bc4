"""Inside the agent's container: the supervisor's core with containers in place of processes."""
