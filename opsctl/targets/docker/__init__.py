"""Target `docker`: replicas, load balancer and guard as containers of one Docker host.

`agent/` runs inside the service's agent container: the supervisor of target `local`, with
containers in place of processes. Everything else runs in the command, and reaches the agent
through the Docker API alone.
"""
