"""A stack of recurrent layers, the ways to run it over a sequence, and the base of the networks that have stacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..cells import cell_class, cell_row
from ..cells.base import State
from ..cells.projections import ProjectionFactory
from ..errors import RequestError
from ..registry.schema import Architecture, Config
from ..utils import torch_internals
from . import kernels
from .block import Block
from .kernels import wavefront
from .kernels.shared import intercepted
from .layer import Direction, Layer, LayerInput, LazyEmbedding, Outputs, Scan, stacked
from .network import Network, check_tokens, mask, mean_of_sum, shape_text, sum_over_time
from .outputs import LayerOutputs

NetworkState = tuple[State, ...]
"""One tuple per layer, each of (batch, units, ...) tensors; a network whose readout is "mean" adds (sum, count)."""
LayerRecord = tuple[Tensor, list[Tensor]]
"""What a layer's input projection read, (time, batch, ...), and the output of its cell at each step, (batch, units, ...)."""


@dataclass
class ScanSettings:
    """How a network runs its layers: see the properties of SequenceNetwork. All stacks of one network share one object."""

    backend: str = "auto"
    tbptt_steps: int | None = None
    checkpoint_every: int | None = None

    def check(self) -> None:
        """Raise RequestError if a value is invalid."""
        if self.backend not in ("auto", "plain", "fused"):
            raise RequestError(f"backend is {self.backend!r}; it can be 'auto', 'plain' or 'fused'.")
        for name, steps in (("tbptt_steps", self.tbptt_steps), ("checkpoint_every", self.checkpoint_every)):
            if steps is None:
                continue
            if isinstance(steps, bool) or not isinstance(steps, Integral) or not 1 <= steps < 2**63:
                raise RequestError(f"{name} is {steps!r}; it can be None or an integer from 1 to 2**63 - 1.")


def output_width(spec: Architecture) -> int:
    """Return the number of channels in the output of each layer, its block included."""
    return spec.block.width if spec.block and spec.block.width else layer_width(spec)


def layer_width(spec: Architecture) -> int:
    """Return the number of channels in the output of each recurrent layer, without its block."""
    cell = cell_class(spec.cell)
    return cell.channels(cell.states[0], spec.units, **spec.options) * (2 if spec.bidirectional == "concat" else 1)


def make_layers(spec: Architecture, inputs: int) -> nn.ModuleList:
    """Return the layers of an architecture, bottom to top; the lowest reads `inputs` channels."""
    row, cell = cell_row(spec.cell), cell_class(spec.cell)
    options: dict[str, Any] = {**spec.options, **({"depth": spec.layers} if row.layers_inside else {})}
    widths = [inputs] + [output_width(spec)] * (0 if row.layers_inside else spec.layers - 1)
    projections = ProjectionFactory(spec.units, spec.kernel, spec.layer_norm)

    def layer(depth: int, width: int) -> Layer:
        block, convolution = None, None
        if spec.block is not None:
            ends = {"first": depth == 0, "last": depth == len(widths) - 1}
            block = Block(spec.block, width, layer_width(spec), projections.kernel is not None, spec.dropout, **ends)
            width, convolution = block.reads, spec.block.convolution
        directions = [
            Direction(cell, width, projections, options, spec.zoneout, spec.recurrent_dropout, convolution)
            for _ in range(2 if spec.bidirectional else 1)
        ]
        return Layer(directions, spec.bidirectional, block)

    return nn.ModuleList(layer(depth, width) for depth, width in enumerate(widths))


class Stack:
    """Layers, one above the other, with dropout between them, and how to run them.

    A Stack is not a torch module: the network registers the layers, under the names that checkpoints have, and makes a new
    Stack of its present layers for every call.
    """

    def __init__(self, config: Config, layers: Sequence[Layer], dropout: nn.Dropout, settings: ScanSettings):
        self.config, self.layers, self.dropout, self.settings = config, layers, dropout, settings

    def zero_state(self, x: LayerInput) -> NetworkState:
        """Return zero states for a batch like `x`, (batch, time, channels, ...)."""
        return tuple(layer.initial_state(x[:, 0]) for layer in self.layers)

    def run(
        self, x: LayerInput, state: NetworkState, lengths: Tensor | None, last_only: bool = False,
        dt: Tensor | None = None,
    ) -> tuple[LayerOutputs, NetworkState]:  # fmt: skip
        """Return the top layer's outputs, and the final states of all layers.

        x: (batch, time, channels, ...). lengths: (batch,). last_only: True if only the last step's outputs are
        needed; the others may then be missing. dt: (batch, time), see Direction.prepare. Raises RequestError for settings
        that the layers cannot have.
        """
        if torch_internals.compiling_to_run():  # dynamo would unroll every step of every layer of the plain scan
            return torch.compiler.disable(self.run)(x, state, lengths, last_only, dt)
        every, tbptt_steps = self.settings.checkpoint_every, self.settings.tbptt_steps
        if every is None or not torch.is_grad_enabled():
            return self._scan(x, state, lengths, last_only, dt)
        spec = self.config.architecture
        batch_norm = spec.block is not None and spec.block.norm == "batch"  # its means are of all steps together
        if spec.bidirectional or spec.recurrent_dropout > 0 or batch_norm or (tbptt_steps and every % tbptt_steps):
            raise RequestError(
                f"{self.config.name} cannot have checkpoint_every={every}: the network must have one direction, no recurrent "
                f"dropout and no batch norm, and tbptt_steps, if set, must divide {every}."
            )
        if torch_internals.transforms_active():
            raise RequestError("torch.func does not work with checkpoint_every. Set checkpoint_every to None.")
        parts = []
        for begin in range(0, x.shape[1], every):
            if tbptt_steps and begin:
                state = tuple(tuple(s.detach() for s in layer_state) for layer_state in state)
            rest = None if lengths is None else (lengths - begin).clamp(0, every)
            part, gaps = (None if whole is None else whole[:, begin : begin + every] for whole in (x, dt))
            outputs, residual, read, state = checkpoint(self._part, part, state, rest, gaps, use_reentrant=False)
            parts.append((outputs, residual, read))
        outputs, *around = (None if column[0] is None else torch.cat(column) for column in zip(*parts, strict=True))
        return LayerOutputs(self.layers[-1], outputs, state[-1], lengths, *around), state  # type: ignore[arg-type]

    def _part(self, x: LayerInput, state: NetworkState, lengths: Tensor | None, dt: Tensor | None) -> tuple[Any, ...]:
        """Return the result of `run` as (outputs, residual branch and input of the top layer, all states)."""
        top, state = self._scan(x, state, lengths, False, dt)
        return stacked(top.outputs), top.residual, top.read, state

    def _scan(
        self, x: LayerInput, state: NetworkState, lengths: Tensor | None, last_only: bool, dt: Tensor | None
    ) -> tuple[LayerOutputs, NetworkState]:
        """Return what `run` returns, by the fastest scan that `backend` allows and that can run these layers on x now."""
        # a graph has no use for code of ours, and no fused scan takes time gaps
        backend = "plain" if torch.compiler.is_exporting() else self.settings.backend
        may_fuse = backend != "plain" and dt is None
        if isinstance(x, LazyEmbedding):
            if may_fuse and (result := self._scan_by_layer(x, state, lengths, last_only)) is not None:
                return result
            x = x.vectors()
        for scan in (self._scan_together, self._scan_by_layer, self._scan_waves) if may_fuse else ():
            if (result := scan(x, state, lengths, last_only)) is not None:
                return result
        if backend == "fused":
            raise RequestError(
                f"No fused or linear scan can run {self.config.name} here. Set backend to 'auto' or 'plain'."
            )
        return self.scan_layers(x, state, lengths, Direction.scan, dt=dt)

    @property
    def _only_layers(self) -> bool:
        """True if each layer reads the unchanged output of the layer below: no block and no active dropout lie between."""
        return self.config.architecture.block is None and not (self.dropout.training and self.dropout.p > 0)

    def _scan_together(
        self, x: Tensor, state: NetworkState, lengths: Tensor | None, last_only: bool
    ) -> tuple[LayerOutputs, NetworkState] | None:
        """Run all layers in one call of a fused scan; return None if no fused scan can."""
        scan = kernels.stack_scan(self.layers, x) if self._only_layers else None
        if scan is None:
            return None
        return self._top(scan(x.transpose(0, 1), state, lengths, self.settings.tbptt_steps), lengths)

    def _scan_by_layer(
        self, x: LayerInput, state: NetworkState, lengths: Tensor | None, last_only: bool
    ) -> tuple[LayerOutputs, NetworkState] | None:
        """Run layer after layer by a fused scan; return None if none can. A block takes no LazyEmbedding."""
        block_needs_vectors = isinstance(x, LazyEmbedding) and self.config.architecture.block is not None
        scan = None if block_needs_vectors else kernels.layer_scan(self.layers, x)
        if scan is None:
            return None
        last = kernels.last_step_scan(scan) if last_only and self.layers[-1].merge is None else None
        return self.scan_layers(x, state, lengths, scan, scan_top=last)

    def _scan_waves(
        self, x: Tensor, state: NetworkState, lengths: Tensor | None, last_only: bool
    ) -> tuple[LayerOutputs, NetworkState] | None:
        """Run all layers at once as a wavefront, which takes neither lengths nor truncated gradients; None if it cannot."""
        is_whole = lengths is None and self.settings.tbptt_steps is None
        if not (is_whole and self._only_layers and not intercepted() and wavefront.supports(self.layers)):
            return None
        return self._top(wavefront.scan(self.layers, x.transpose(0, 1), state), lengths)

    def _top(self, scanned: tuple[Outputs, NetworkState], lengths: Tensor | None) -> tuple[LayerOutputs, NetworkState]:
        """Return what `run` returns from `scanned`, the outputs and final states of a scan of all layers at once."""
        outputs, final = scanned
        return LayerOutputs(self.layers[-1], outputs, final[-1], lengths), final

    def scan_layers(
        self, x: LayerInput, state: NetworkState, lengths: Tensor | None, scan_direction: Scan,
        records: list[LayerOutputs] | None = None, scan_top: Scan | None = None, dt: Tensor | None = None,
    ) -> tuple[LayerOutputs, NetworkState]:  # fmt: skip
        """Scan layer after layer by `scan_direction`. Arguments and result are those of `run`.

        records: a list to which the LayerOutputs of every layer are added, with a tensor for each step; x must then be a
        tensor. scan_top: a scan of the top layer that returns its last step only.
        """
        gaps = None if dt is None else dt.transpose(0, 1)
        layer_input: LayerInput = x.transpose(0, 1)
        final = []
        for depth, (layer, start) in enumerate(zip(self.layers, state, strict=True)):
            residual, read = None, layer_input
            if layer.block is not None:
                assert isinstance(layer_input, Tensor)
                residual, read = layer.block.read(layer_input, lengths)
            is_top = depth == len(self.layers) - 1
            scan = scan_top if is_top and scan_top is not None else scan_direction
            outputs, end = layer.scan(read, start, lengths, self.settings.tbptt_steps, scan, gaps)
            final.append(end)
            top = LayerOutputs(layer, outputs, end, lengths, residual, None if residual is None else read)  # type: ignore[arg-type]
            if records is not None:
                top = replace(top, outputs=list(outputs), read=read)  # type: ignore[arg-type]
                records.append(top)
            if scan is scan_top:
                top = top.of_last_step()
            if not is_top:
                layer_input = stacked(top.steps) if layer.block is not None else self.dropout(stacked(top.outputs))
        return top, tuple(final)


def _setting(name: str, doc: str) -> Any:
    """Return a property that reads and writes the field `name` of a network's ScanSettings. doc: its docstring."""
    return property(
        lambda network: getattr(network.settings, name), lambda network, value: setattr(network.settings, name, value),
        doc=doc,
    )  # fmt: skip


class SequenceNetwork(Network):
    """A network that reads sequences through one or more stacks of recurrent layers; `layers` is the first stack.

    The network runs its layers by their methods and does not call them, so forward hooks on layers do not run; hooks on the
    linear maps in layers do.
    """

    layers: Sequence[Layer]
    backend: str = _setting("backend", "The scan, by default \"auto\": \"plain\" is the reference; \"fused\" is a fused or linear scan (zoo.networks.kernels), or "
        "an error if none can run; \"auto\" is \"fused\" or else \"plain\". They agree to rounding.")  # fmt: skip
    tbptt_steps: int | None = _setting(
        "tbptt_steps",
        "Cut gradients through time every this many steps (truncated backpropagation through time); None, the default: never.",
    )
    checkpoint_every: int | None = _setting("checkpoint_every", "Keep only the states of every this many steps for the "
        "backward pass, and recompute the others (activation checkpointing); None, the default: keep all.")  # fmt: skip

    def __init__(self, config: Config):
        super().__init__(config)
        spec, interface = config.architecture, config.interface
        self.settings = ScanSettings()
        self.width = output_width(spec)
        inputs = spec.embedding.size if spec.embedding else interface.input[0]
        self.layers = make_layers(spec, inputs)  # type: ignore[assignment]
        self.dropout = nn.Dropout(spec.dropout)
        self._add_head()
        self.mean_std = (0.0, 1.0)
        if spec.standardize:
            assert not isinstance(interface.mean, tuple)  # only inputs without time steps have a mean per feature
            assert not isinstance(interface.std, tuple)
            self.mean_std = interface.mean, interface.std

    @property
    def stack(self) -> Stack:
        """The stack of `layers`."""
        return self._stack(self.layers)

    def _stack(self, layers: Sequence[Layer]) -> Stack:
        return Stack(self.config, layers, self.dropout, self.settings)

    def _check_sequences(self, x: Tensor) -> None:
        """Raise RequestError for invalid settings, or unless x is (batch, time, *input)."""
        self.settings.check()
        self._check_dtype(x)
        if x.dim() != 2 + len(self.interface.input) or x.shape[2:] != self.interface.input or 0 in x.shape[:2]:
            raise RequestError(
                f"{self.config.name} takes x of shape ({self._shape_text('batch, time')}); got {shape_text(x)}."
            )

    def _layer_input(self, x: Tensor, lengths: Tensor | None) -> LayerInput:
        """Return the first layer's input: token vectors or standardised numbers, zero beyond each sequence's end."""
        if self.embedding is None:
            return mask(self._standardized(x), lengths)
        return self._lookup(mask(x, lengths), self.embedding)  # token 0 has the zero vector

    def _standardized(self, x: Tensor) -> Tensor:
        mean, std = self.mean_std
        return x if (mean, std) == (0.0, 1.0) else (x - mean) / std

    def _lookup(self, tokens: Tensor, embedding: nn.Embedding) -> LazyEmbedding:
        unreadable = torch.compiler.is_exporting() or torch_internals.is_mapped(tokens)
        if not unreadable:
            check_tokens(self.config.name, tokens, embedding)
        return LazyEmbedding(embedding, tokens)

    def _readout(self, top: LayerOutputs, lengths: Tensor | None) -> Tensor:
        """Return the input of the head, (batch, width) or (batch, time, width), from the top layer of a stack."""
        if self.interface.readout == "last":
            return self._flat(top.last)
        steps = stacked(top.steps).transpose(0, 1)
        if self.interface.readout == "every":
            return mask(self._flat(steps), lengths)
        return self._flat(mean_of_sum(*sum_over_time(mask(steps, lengths), lengths)).to(steps.dtype))

    def _flat(self, h: Tensor) -> Tensor:
        """Return h, (..., width); for images, (..., channels, height, width), what the network's neck makes of it instead."""
        return h if self.config.architecture.kernel is None else self.neck(h)
