"""What the world sees: cards, comparisons, pages and plots; releasing, pushing and verifying checkpoints."""
