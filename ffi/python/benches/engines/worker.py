"""Processes that hold an engine each: they are started once and answer requests, so that rounds of several take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Worker:
    """A process that answers requests with JSON, one line each."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._err = log.open("ab")
        variables = {**os.environ, **environment, "FUSEWRIGHT_BENCH_BEGUN": repr(time.time())}
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Sends a request and gives the answer. Raises ``RuntimeError`` if the process ends instead."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.answer()

    def answer(self) -> Any:
        """Gives the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(self._last_words())
        return json.loads(line)

    def end(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._err.close()

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "Error" in line and "Traceback" not in line]
        return (errors or lines or ["it ended without a word"])[-1].strip()[-400:]


def serve(start: Callable[[], tuple[Any, dict[str, Callable[..., Any]]]]) -> None:
    """Answers requests in a worker until they end: the first answer is what ``start`` gives, with its handlers by name.

    What libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    first, handlers = start()
    say(first)
    for line in sys.stdin:
        request = json.loads(line)
        say(handlers[request.pop("what")](**request))


def seconds_since_begun() -> float:
    """How long ago this worker was started, by its parent."""
    return time.time() - float(os.environ["FUSEWRIGHT_BENCH_BEGUN"])
