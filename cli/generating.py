"""`rnnzoo generate`: lets a network continue what it has heard."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from .arguments import Address, AsJson, number
from .output import emit, progress, say


def generate(
    name: Address,
    prompt: Annotated[str, Option(help='What to continue: keys such as "C3 E4 G4", frames separated by "|".')] = "",
    length: Annotated[int, number("Number of frames to generate.")] = 64,
    temperature: Annotated[float, Option(min=0.0, help="Below 1: more predictable; 0: no chance at all.")] = 1.0,
    top_k: Annotated[int | None, number("Let only the N most probable keys of a frame sound.")] = None,
    seed: Annotated[int, number("Seed of the random draws.", 0)] = 0,
    out: Annotated[
        Path | None, Option(help="MIDI file to write (default: NAME.mid); a picture goes beside it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate music with a network that predicts the next frame: a MIDI file, and a picture of the piano roll."""
    from zoo import load
    from zoo.data import generation, midi
    from zoo.errors import MissingExtraError
    from zoo.utils import files

    network = load(name, device="cpu")
    path = out or Path(f"{network.config.name}.mid")
    if find_spec("mido") is None:  # said before the work, not after
        raise MissingExtraError("mido", "music")
    with progress(f"generate {name}") as bar:
        roll = generation.generate(
            network, prompt=prompt, length=length, temperature=temperature, top_k=top_k, seed=seed, report=bar
        )
    files.atomic_write(path, midi.midi(roll))
    written = [path]
    if find_spec("matplotlib") is not None:
        midi.draw(roll, path.with_suffix(".png"), f"{network.config.name}, seed {seed}, temperature {temperature:g}")
        written.append(path.with_suffix(".png"))
    names = network.classes
    frames = [[names[key] for key in frame.nonzero().flatten().tolist()] for frame in roll]
    emit({"name": name, "seed": seed, "files": list(map(str, written)), "frames": frames}, as_json,
         "\n".join(" ".join(frame) or "-" for frame in frames))  # fmt: skip
    say(f"Wrote {' and '.join(map(str, written))}")
