"""Rendering for people: manifests and chart for Kubernetes, a compose file for Docker."""
