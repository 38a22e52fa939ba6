"""What papers claim of their figures, as checks of our numbers."""
