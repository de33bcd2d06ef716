"""Commands of the zoo, each in a process of its own that has a bucket server."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

# Imports once, and starts a command in a process of its own for each line.
STARTER = """
import json, os, sys
from importlib import import_module
from zoo.cli.run import run_command
from zoo.train import classification
for line in sys.stdin:
    output, verb, *arguments = json.loads(line)
    process = os.fork()
    if not process:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = [f"zoo.{verb}", *arguments]
        run_command(import_module(f"zoo.{verb}.__main__").main)
        sys.exit()
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Starter:
    """Runs commands; `pid` is the process of the last one."""

    pid = 0

    def __init__(self, server, folder: Path, **environment: str) -> None:
        self.output = folder / "output.txt"
        every = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **server.environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER],
            env={**every, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, command: str, output_dir: str = "") -> None:
        words = [*command.split(), *(["--output_dir", output_dir] if output_dir else [])]
        self.process.stdin.write(json.dumps([str(self.output), *words]) + "\n")
        self.process.stdin.flush()
        self.pid = int(self.process.stdout.readline())

    def run(self, command: str, output_dir: str = "") -> tuple[int, str]:
        """Returns the exit status and the output of a command."""
        self.begin(command, output_dir)
        return self.end()

    def end(self) -> tuple[int, str]:
        return int(self.process.stdout.readline()), self.output.read_text()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def names(server, run: str) -> set[str]:
    """Names in a run folder, without those of TensorBoard's files."""
    found = {
        key.removeprefix(f"bucket/{run}/") for key in list(server.objects) if f"/{run}/" in key
    }
    return {name for name in found if name and not name.startswith("logs/")}


def kill_at(server, starter, place: str, **options) -> None:
    """Kills the process of the next command in the middle of a request's body, if it has one."""
    kind = "break" if re.match("upload|read|list", place) else 503
    server.fail(kind, place, then=starter.kill, **options)
