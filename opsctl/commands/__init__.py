"""What the commands do, one module a family; cli.py parses and prints."""
