"""The resident process of a service on target `local`: one a service, it outlives every command.

It alone starts and stops replicas and talks to HAProxy; it is the guard and the memory watchdog.
Replicas and HAProxy outlive it in turn, and a new supervisor adopts them.
Light parts (`layout`, `procfs`, `wire`, `start`) are used by commands too and import no asyncio.
"""
