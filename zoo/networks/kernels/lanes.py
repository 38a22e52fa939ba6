"""CUDA streams for the layers of a stack, so that one layer's launches need not wait for another's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


class Lanes:
    """Gives each layer a lane, the CUDA stream of its kernel launches. Without streams, all use the current stream."""

    def __init__(self, streams: Sequence[torch.cuda.Stream] = ()):
        self.streams = streams

    @contextmanager
    def on(self, layer: int, after: int | None = None) -> Iterator[None]:
        """Send the launches within the block to the lane of `layer`, after all launches so far in that of `after`."""
        if not self.streams:
            yield
            return
        if after is not None and 0 <= after < len(self.streams):
            self.streams[layer].wait_stream(self.streams[after])
        with torch.cuda.stream(self.streams[layer]):
            yield

    def fork(self) -> None:
        """Make every lane wait for the current stream."""
        for stream in self.streams:
            stream.wait_stream(torch.cuda.current_stream())

    def join(self) -> None:
        """Make the current stream wait for every lane."""
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
