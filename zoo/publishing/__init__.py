"""Publishing: model cards, comparisons, pages and plots; releasing, pushing and verifying checkpoints."""
