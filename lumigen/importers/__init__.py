"""Readers of the models of other frameworks, beside the frontend: each calls it, and nothing below knows of them."""
