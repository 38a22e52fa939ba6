"""The Hugging Face Hub: `client` talks to it, `guard` checks every request and response, `errors` puts failures in plain
words; `browse`, `upload` and `cache` are what users do. Nothing here imports torch, nor huggingface_hub before its use."""
