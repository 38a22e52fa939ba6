"""`rnnzoo site`: writes the zoo as web pages, and serves them."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from zoo.errors import RequestError
from zoo.utils.text import size_text

from .arguments import AsJson
from .output import emit, progress, say

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


def site(
    out: Annotated[Path, Option(help="Folder of the site: new, empty, or of an earlier build.")] = Path("site"),
    serve: Annotated[
        bool, Option("--serve", help="Serve the site to browsers on this machine until interrupted.")
    ] = False,
    port: Annotated[
        int | None, Option(help="Port of --serve (default: 8000); 0 takes any free port.", min=0, max=65535)
    ] = None,
    live: Annotated[
        bool, Option("--live/--no-live", help="Compile models that run in the browser (needs clang, wasm-ld and node).")
    ] = True,
    onnx: Annotated[
        bool, Option("--onnx", help="Offer an ONNX file of every model with weights (takes minutes).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the zoo as static web pages: tables, curves, papers, and models that run in the browser."""
    from zoo.publishing.site import builder

    if port is not None and not serve:
        raise RequestError("--port is for --serve: add --serve, or leave out --port.")
    # before the work, since the port may be taken
    server = _server(out, 8000 if port is None else port) if serve else None
    with progress("compile models") as bar:
        built = builder.build(out, live=live, onnx=onnx, report=bar)
    data = {**asdict(built), "folder": str(built.folder)}
    emit(data, as_json, str(out / "index.html"))
    say(
        f"{built.pages:,} pages, {built.files:,} files, {size_text(built.bytes)}, {len(built.live)} models that run in a page"
    )
    if built.not_live and live:
        say(f"No model runs in a page. {built.not_live}")
    if server is not None:
        with server:
            say(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
            server.serve_forever()


def _server(folder: Path, port: int) -> "ThreadingHTTPServer":
    """Return a server of a folder, for this machine alone. Raises RequestError if the port is taken or may not be used."""
    import http.server
    from functools import partial

    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise RequestError(
            f"Port {port} cannot be used ({error.strerror}). Choose another one; --port 0 takes any free port."
        ) from error
