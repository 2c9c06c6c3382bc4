"""opsctl.yaml: declaration, loading, documentation."""
