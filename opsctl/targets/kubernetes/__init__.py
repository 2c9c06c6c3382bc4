"""Target `kubernetes`: releases as Deployments of one namespace, with Helm as the release engine.

Everything that another machine needs to go on lies in the namespace. The official client is only
imported when something is asked of a cluster.
"""
