"""Splits a StoryReader into three recurrent networks: for the story, for the question, and the decoder over both."""

import torch

from ...networks.builder import build
from ...networks.recurrent import RecurrentNetwork
from ...networks.story_reader import StoryReader
from ...registry.schema import Config, Interface
from ...registry.schema.networks import NO_TASK


@torch.no_grad()
def parts(reader: StoryReader) -> dict[str, RecurrentNetwork]:
    """Return the networks of a story reader by name: "story", "question" and "decoder".

    The first two read words. After each word, the decoder reads the first state of their top layer, not their logits.
    """
    interface = reader.interface
    words = Interface(vocabulary=interface.vocabulary, steps=interface.steps, outputs=1, readout="last")
    vectors = Interface(input=(reader.width,), steps=interface.steps, outputs=interface.outputs, readout="last")
    spec = reader.config.architecture
    shapes = {
        "story": (spec, words, reader.layers),
        "question": (spec, words, reader.question.layers),
        "decoder": (spec.model_copy(update={"embedding": None}), vectors, reader.decoder.layers),
    }
    made: dict[str, RecurrentNetwork] = {}
    for part, (architecture, shape, layers) in shapes.items():
        name = f"{reader.config.name}.{part}"
        network = build(Config(name=name, task=NO_TASK, architecture=architecture, interface=shape), device="cpu")
        assert isinstance(network, RecurrentNetwork)
        for mine, trained in zip(network.layers, layers, strict=True):
            mine.load_state_dict(trained.state_dict())
        if network.embedding is not None and reader.embedding is not None:
            network.embedding.load_state_dict(reader.embedding.state_dict())
        if part == "decoder":
            network.head.load_state_dict(reader.head.state_dict())
        made[part] = network.eval()
    return made
