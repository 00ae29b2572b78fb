"""The progress bar on a terminal; must not know what it counts."""

from __future__ import annotations

BAR_SECONDS = 0.25
"""The minimum interval between two updates of a bar."""


class TerminalBar:
    """A progress bar on standard error."""

    def __init__(self, title: str) -> None:
        from rich import progress  # noqa: PLC0415 -- slow to load, and only terminals need it
        from rich.console import Console  # noqa: PLC0415

        self._progress = progress.Progress(
            progress.TextColumn(f"[bold]{title}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[counts]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=4,
            auto_refresh=False,
        )
        self._task = self._progress.add_task(title, total=None, counts="")
        self._progress.start()

    def show(self, *, total: int, done: int, counts: str) -> None:
        """Draw the bar, followed by `counts`."""
        self._progress.update(self._task, total=total, completed=done, counts=counts, refresh=True)

    def close(self) -> None:
        """Finish the bar; later output appears below it."""
        self._progress.stop()
