"""Networks as files for other runtimes. This module imports nothing, so that the table FORMATS needs no torch."""
