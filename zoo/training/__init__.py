"""Training by a recipe, evaluation, and many runs side by side."""
