"""`rnnzoo generate`: continues a text or a piece of music with a network that predicts the next step."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Option

from .arguments import Address, AsJson, number
from .output import emit, progress, say, stream

if TYPE_CHECKING:
    from torch import Tensor


def generate(
    name: Address,
    prompt: Annotated[
        str,
        Option(help='What to continue: text, or keys such as "C3 E4 G4", with "|" between frames and "-" for silence.'),
    ] = "",
    length: Annotated[
        int | None, number("Characters, bytes or words (default: 500), or frames (default: 64), to generate.")
    ] = None,
    temperature: Annotated[
        float, Option(min=0.0, help="Below 1: more predictable; 0: always the most probable.")
    ] = 1.0,
    top_k: Annotated[int | None, number("Draw only from the N most probable characters, bytes, words or keys.")] = None,
    seed: Annotated[int, number("Seed of the random draws.", 0)] = 0,
    out: Annotated[
        Path | None,
        Option(help="MIDI file of music (default: NAME-SEED.mid), replaced if it exists; a picture goes next to it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate text or music with a network that predicts what comes next.

    Text appears as it is drawn. Music becomes a MIDI file, and a picture of its piano roll.

    In JSON, the frames of music begin with the prompt; text does not.
    """
    from zoo.checkpoints.references import Reference
    from zoo.checkpoints.sources import resolve
    from zoo.data import generation, midi
    from zoo.errors import MissingExtraError, RequestError
    from zoo.networks import loading
    from zoo.utils import files

    checkpoint = resolve(Reference.parse(name))
    if generation.plays(checkpoint.config) and find_spec("mido") is None:  # said before the work, not after
        raise MissingExtraError("mido", "music")
    network = loading.assemble(checkpoint, device="cpu")
    default = generation.CHARACTERS if generation.writes(network) else generation.FRAMES
    asked = {
        "name": name, "prompt": prompt, "length": length or default, "temperature": temperature, "top_k": top_k, "seed": seed,
    }  # fmt: skip
    if generation.writes(network):
        if out is not None:
            raise RequestError("--out is for music; text goes to the terminal. Leave it out.")
        parts = generation.stream_text(network, prompt, length or default, temperature, top_k, seed)
        if as_json:
            emit({**asked, "text": "".join(parts)}, as_json, "")
        else:
            stream(prompt, parts)
        return
    path = Path(f"{network.config.name}-{seed}.mid") if out is None else out
    if path.suffix.lower() not in (".mid", ".midi"):
        raise RequestError(f"--out must end in .mid or .midi, but is {str(path)!r}.")
    draws = find_spec("matplotlib") is not None
    written = [path, path.with_suffix(".png")] if draws else [path]
    for each in written:
        files.check_target(each)
    if draws and written[1].exists() and not path.exists():
        raise RequestError(f"{written[1]} exists, and is no picture of an earlier {path}. Choose another --out.")
    with progress(f"generate {name}") as bar:
        roll = cast("Tensor", generation.generate(
            network, prompt=prompt, length=length, temperature=temperature, top_k=top_k, seed=seed, report=bar
        ))  # fmt: skip
    files.atomic_write(path, midi.midi(roll))
    if draws:
        midi.draw(roll, written[1], f"{network.config.name}, seed {seed}, temperature {temperature:g}")
    names = network.classes
    frames = [[names[key] for key in frame.nonzero().flatten().tolist()] for frame in roll]
    emit({**asked, "files": list(map(str, written)), "frames": frames}, as_json,
         "\n".join(" ".join(frame) or generation.NOTHING for frame in frames))  # fmt: skip
    advice = "" if draws else ". With matplotlib it also draws a picture: pip install 'rnnzoo[plots]'"
    say(f"Wrote {' and '.join(map(str, written))}{advice}")
    if not roll.any():
        say(f"No key sounds in it. Try {'another --seed' if temperature else 'a higher --temperature'}, or a --prompt.")
