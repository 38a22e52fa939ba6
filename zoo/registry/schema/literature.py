"""Figures that papers report of networks without an entry in the registry."""

from collections.abc import Iterator

from .base import Key, Percent, Seq, Some, Spec, Text


class LiteratureTable(Spec):
    """Rows of a paper's table about networks that are not models of the registry."""

    paper: Key
    table: Text
    tasks: Some[Key]
    percent: dict[Text, Seq[Percent | None]]
    """Test accuracy in percent, as printed, for each of `tasks`, by network; null: not in the table."""

    def _problems(self) -> Iterator[str]:
        for network, figures in self.percent.items():
            if len(figures) != len(self.tasks):
                counts = f"{len(figures)} figures for {len(self.tasks)} tasks"
                yield f"{self.table}: {network!r} has {counts}; give one, or null, for each"
