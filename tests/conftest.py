import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # helpers shared by several rooms, such as mixtures.py

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)
