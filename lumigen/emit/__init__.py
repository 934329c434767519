"""Emit: a compiled model as the files of a standalone C++ project."""
