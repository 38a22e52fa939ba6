"""The command line, `rnnzoo`. Installed as the package rnnzoo_cli."""
