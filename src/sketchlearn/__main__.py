"""``python -m sketchlearn``."""

from sketchlearn.cli import program

if __name__ == "__main__":
    program()
