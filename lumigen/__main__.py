"""`python -m lumigen`: the `lumigen` command."""

from lumigen.cli import main

if __name__ == "__main__":
    main()
