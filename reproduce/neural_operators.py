"""Two neural operators in their usual small forms, with torch: a Fourier neural operator and a DeepONet.

FNO (Li et al., 2021): v <- gelu(W v + F^-1(R F v)), a few layers, with R acting on the lowest frequencies only.
DeepONet (Lu et al., 2021): y(t) = sum_k b_k(x) t_k(t), b a network of the input's values, t a network of the point.

Both are trained by Adam with a cosine schedule on the relative error, for a given time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from ovk.curves import Grid
from reproduce.support import Array

#: Channels and layers of the FNO, waves that it keeps along an axis; neurons of the DeepONet, and its sum's length.
CHANNELS, LAYERS, WAVES = 24, 4, 12
NEURONS, TERMS = 128, 64
BATCH, RATE = 20, 2e-3

#: From inputs, outputs, new inputs, their grid and processor seconds to predictions.
Rival = Callable[[Array, Array, Array, Grid, float], Array]


def available() -> bool:
    """Whether torch is installed."""
    return find_spec("torch") is not None


def fno(X: Array, Y: Array, new: Array, grid: Grid, seconds: float) -> Array:
    """The Fourier neural operator."""
    return _trained(_fno_network, X, Y, new, grid, seconds)


def deeponet(X: Array, Y: Array, new: Array, grid: Grid, seconds: float) -> Array:
    """The DeepONet."""
    return _trained(_deeponet_network, X, Y, new, grid, seconds)


RIVALS: dict[str, Rival] = {"FNO": fno, "DeepONet": deeponet}


def _places(grid: Grid) -> Array:
    """Points of the grid with every variable in [0, 1], (d, k)."""
    points = grid.checked().reshape(len(grid), -1)
    low, high = points.min(axis=0), points.max(axis=0)
    return np.asarray((points - low) / (high - low))


def _trained(build: Any, X: Array, Y: Array, new: Array, grid: Grid, seconds: float) -> Array:
    """Predictions of a network trained on standardised functions for a given processor time."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    # Outputs have one scale for all points, so that functions stay functions; inputs have one per point, as usual.
    centre, scale = X.mean(axis=0), float(X.std()) or 1.0
    middle, size = Y.mean(axis=0), float(Y.std()) or 1.0

    def tensor(A: Array) -> Any:
        return torch.as_tensor(A, dtype=torch.float32)

    inputs, outputs, asked = tensor((X - centre) / scale), tensor((Y - middle) / size), tensor((new - centre) / scale)
    network = build(torch, grid, X.shape[1], Y.shape[1])
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    start, share = time.process_time(), 0.0
    while share < 1.0:
        for some in torch.randperm(len(X)).split(BATCH):
            for group in optimiser.param_groups:
                group["lr"] = 0.5 * RATE * (1.0 + np.cos(np.pi * share))
            optimiser.zero_grad()
            error = torch.linalg.vector_norm(network(inputs[some]) - outputs[some], dim=1)
            loss = torch.mean(error / torch.linalg.vector_norm(outputs[some], dim=1))
            loss.backward()
            optimiser.step()
            share = (time.process_time() - start) / seconds
            if share >= 1.0:
                break
    with torch.no_grad():
        found = torch.cat([network(part) for part in asked.split(BATCH)])
    return np.asarray(found.numpy() * size + middle, dtype=np.float64)


def _fno_network(torch: Any, grid: Grid, p: int, d: int) -> Any:
    shape = grid.shape
    axes = tuple(range(2, 2 + len(shape)))
    # Waves -m, ..., m - 1 along every axis but the last, 0, ..., m - 1 along that.
    kept = [min(WAVES, side // 2) for side in shape]
    rows = [torch.cat([torch.arange(m), torch.arange(side - m, side)]) for m, side in zip(kept, shape, strict=True)]
    rows[-1] = torch.arange(kept[-1])
    where = (slice(None), slice(None), *torch.meshgrid(*rows, indexing="ij"))
    count = [len(row) for row in rows]
    places = torch.as_tensor(_places(grid).T.reshape(1, -1, *shape), dtype=torch.float32)

    def mixing(a: int, b: int) -> Any:
        return torch.nn.Conv1d(a, b, 1)

    def mixed(layer: Any, v: Any) -> Any:
        return layer(v.flatten(2)).reshape(len(v), -1, *shape)

    class FourierNeuralOperator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift = mixing(1 + len(shape), CHANNELS)
            self.local = torch.nn.ModuleList([mixing(CHANNELS, CHANNELS) for _ in range(LAYERS)])
            weights = torch.randn(LAYERS, CHANNELS, CHANNELS, *count, 2) / CHANNELS
            self.spectral = torch.nn.Parameter(weights)
            self.widen, self.project = mixing(CHANNELS, 2 * CHANNELS), mixing(2 * CHANNELS, 1)

        def forward(self, x: Any) -> Any:
            x = x.reshape(len(x), 1, *shape)
            v = mixed(self.lift, torch.cat([x, places.expand(len(x), *places.shape[1:])], dim=1))
            for layer in range(LAYERS):
                waves = torch.fft.rfftn(v, dim=axes)
                R = torch.view_as_complex(self.spectral[layer])
                through = torch.zeros_like(waves)
                through[where] = torch.einsum("bi...,io...->bo...", waves[where], R)
                after = mixed(self.local[layer], v) + torch.fft.irfftn(through, s=shape, dim=axes)
                v = torch.nn.functional.gelu(after) if layer < LAYERS - 1 else after
            v = torch.nn.functional.gelu(mixed(self.widen, v))
            return mixed(self.project, v).flatten(1)

    return FourierNeuralOperator()


def _deeponet_network(torch: Any, grid: Grid, p: int, d: int) -> Any:
    places = torch.as_tensor(_places(grid), dtype=torch.float32)

    def layers(inputs: int) -> Any:
        widths = [inputs, NEURONS, NEURONS, NEURONS]
        parts: list[Any] = []
        for a, b in pairwise(widths):
            parts += [torch.nn.Linear(a, b), torch.nn.GELU()]
        return torch.nn.Sequential(*parts, torch.nn.Linear(NEURONS, TERMS))

    class DeepONet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch, self.trunk = layers(p), layers(places.shape[1])
            self.offset = torch.nn.Parameter(torch.zeros(d))

        def forward(self, x: Any) -> Any:
            return self.branch(x) @ self.trunk(places).T / TERMS**0.5 + self.offset

    return DeepONet()
