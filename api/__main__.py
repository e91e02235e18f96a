"""`python -m rnnc`: the command, where its script is not on the path."""

from .cli.app import app

if __name__ == "__main__":
    app(prog_name="rnnc")
