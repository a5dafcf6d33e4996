"""Check of what pages, docstrings and comments say of the repository: `python -m scripts.check_docs`."""
