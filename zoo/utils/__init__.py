"""Tools that know nothing of networks: paths, atomic files and locks, signals, imports, provenance, figures, Markdown."""
