"""Figures that papers report of networks without an entry in the registry."""

from collections.abc import Iterator

from .base import Key, Percent, Positive, Seq, Some, Spec, Text, fraction


class LiteratureTable(Spec):
    """Rows of a paper's table about networks that are not models of the registry."""

    paper: Key
    table: Text
    tasks: Some[Key]
    percent: dict[Text, Seq[Percent | None]] = {}
    """Test accuracy in percent, as printed, for each of `tasks`, by network; null: not in the table."""
    nats: dict[Text, Seq[Positive | None]] = {}
    """Negative log-likelihood in nats, as printed, in place of `percent`."""

    @property
    def values(self) -> dict[str, Seq[float | None]]:
        """The figures by network, in the unit of results.json, where an accuracy is a fraction."""
        percent = {
            network: tuple(None if figure is None else fraction(figure) for figure in figures)
            for network, figures in self.percent.items()
        }
        return percent or self.nats

    def _problems(self) -> Iterator[str]:
        if bool(self.percent) == bool(self.nats):
            yield f"{self.table}: the figures are either accuracies, 'percent', or likelihoods, 'nats'; give one of the two"
        for network, figures in {**self.percent, **self.nats}.items():
            if len(figures) != len(self.tasks):
                counts = f"{len(figures)} figures for {len(self.tasks)} tasks"
                yield f"{self.table}: {network!r} has {counts}; give one, or null, for each"
