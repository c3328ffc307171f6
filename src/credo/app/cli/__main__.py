"""`python -m credo.app.cli`."""

from credo.app.cli import main

main()
