"""The pages of docs/ and the generated parts of README.md: one module for a page or for a table."""
