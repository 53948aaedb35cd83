"""``python -m sketchlearn.cli``"""

from sketchlearn.cli import program

program()
