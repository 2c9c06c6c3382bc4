"""A seeded simulator of two services, to prove what the gate does over thousands of runs."""
