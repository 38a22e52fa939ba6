"""The command line `rnnzoo`, installed as the package rnnzoo_cli. `main.VERBS` says which module has which command."""
