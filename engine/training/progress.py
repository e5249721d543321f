"""What the long jobs share: one line that says how far they are, and which errors end them in one line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile

from safetensors import SafetensorError

from engine.weights import LoadError

STOPS = (OSError, ValueError, RuntimeError, LoadError, SafetensorError, BadZipFile)


class Progress:
    """Call it with the share done (0 to 1) and a few words. On a terminal the line is rewritten, in a log it repeats rarely."""

    def __init__(self, what: str, every: float | None = None):
        self.what = what
        self.every = every or (0.5 if sys.stderr.isatty() else 15.0)
        self._end = "\r" if sys.stderr.isatty() else "\n"

    def __enter__(self) -> Progress:
        self._began = self._last = time.monotonic()
        self._from: float | None = None
        return self

    def __call__(self, share: float, words: str = "") -> None:
        now = time.monotonic()
        if self._from is None:
            self._from = share  # work that an earlier run did says nothing of this one's pace
        if now - self._last < self.every and share < 1:
            return
        self._last = now
        gained = share - self._from
        left = f", {clock((now - self._began) * (1 - share) / gained)} left" if gained > 0 else ""
        print(
            f"{self.what}: {share:.1%}{left}{'  ' + words if words else ''}   ",
            end=self._end,
            file=sys.stderr,
            flush=True,
        )

    def __exit__(self, *_: object) -> None:
        if self._end == "\r":
            print(file=sys.stderr)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def stopping(kept: str = "the same command goes on") -> Iterator[None]:
    """Ends a command by one line instead of a traceback, when it is interrupted or fails in a way that a user can mend."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(f"stopped; {kept}")
    except STOPS as error:
        sys.exit(f"stopped: {error}")
