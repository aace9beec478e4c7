"""Run a command, and print its wall and processor time: ``python .ci/timed.py NAME COMMAND...``."""

import os
import subprocess
import sys
import time

name, *command = sys.argv[1:]
start = time.monotonic()
code = subprocess.run(command, check=False).returncode
wall, used = time.monotonic() - start, os.times()
seconds = used.children_user + used.children_system
print(f"{name}: {int(wall // 60)}:{wall % 60:02.0f} of wall time, {seconds:.0f} s of processor time", flush=True)
sys.exit(code)
