"""The Hugging Face Hub. `browse`, `upload` and `cache` have the functions that the rest of rnnzoo calls.

`client` connects to the Hub, `guard` checks every request and response, and `errors` translates failures. For the time limit
of a connection, `settings` holds the default, `budget` counts the time, and `guard` enforces the limit. No module here
imports torch; huggingface_hub is imported at its first use.
"""
