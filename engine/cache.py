"""The KV cache as a slab: rows x slots per layer. A row's first `length` slots are committed, what lies behind is scratch.

Rolling back is forgetting: rejected tokens are simply overwritten by the next forward. The slab quacks like a transformers
Cache (`update`, `get_seq_length`), takes its shapes from the first keys it sees, and grows by doubling.
"""

from __future__ import annotations

import torch
from torch import Tensor


class SlabCache:
    """One tensor a layer for keys and one for values: [rows, heads, slots, dim]. Rows are borrowed with acquire()."""

    is_compileable = False

    def __init__(self, rows: int = 1, slots: int = 512):
        self.length = [0] * rows
        self.slots = slots
        self.layers: dict[int, list[Tensor]] = {}
        self._free = list(range(rows))

    def acquire(self) -> int | None:
        """An empty row, or None when all are taken."""
        if not self._free:
            return None
        row = self._free.pop(0)
        self.length[row] = 0
        return row

    def release(self, row: int) -> None:
        self._free.append(row)

    def aim(self, rows: list[int], width: int) -> int:
        """Point the next forward at `width` scratch slots behind each row's prefix; returns the extent to attend over."""
        self._starts = [self.length[row] for row in rows]
        self._width = width
        self.extent = max(self._starts) + width
        while self.slots < self.extent:
            self.slots *= 2
        self._rows = rows
        self._adjacent = rows == list(range(rows[0], rows[0] + len(rows)))
        self._level = self._adjacent and len(set(self._starts)) == 1
        self._where: tuple | None = None
        return self.extent

    def update(self, keys: Tensor, values: Tensor, layer: int, *_, **__) -> tuple[Tensor, Tensor]:
        """Write keys, values [batch, heads, width, dim] to the aimed slots; return all that may be attended to."""
        first, out = self._rows[0], []
        for slab, new in zip(self._layer(layer, keys, values), (keys, values), strict=True):
            if self._level:
                slab.narrow(0, first, len(new)).narrow(2, self._starts[0], self._width).copy_(new)
            else:
                slab[self._indices(slab.device)] = new.transpose(1, 2)
            reach = slab.narrow(2, 0, self.extent)
            out.append(reach.narrow(0, first, len(new)) if self._adjacent else reach[self._rows])
        return out[0], out[1]

    @torch.inference_mode()
    def commit(self, row: int, kept: list[int]) -> None:
        """Keep the scratch slots `kept` (ascending) of the last forward; a path that skipped siblings is compacted."""
        start = self.length[row]
        if kept != list(range(len(kept))):
            for pair in self.layers.values():
                source = torch.tensor(kept, device=pair[0].device) + start
                for slab in pair:
                    slab[row, :, start : start + len(kept)] = slab[row].index_select(1, source)
        self.length[row] = start + len(kept)

    def get_seq_length(self, layer: int = 0) -> int:
        return max(self.length)

    def _layer(self, layer: int, keys: Tensor, values: Tensor) -> list[Tensor]:
        pair = self.layers.get(layer)
        if pair is None or pair[0].shape[2] < self.slots:
            grown = [new.new_zeros(len(self.length), new.shape[1], self.slots, new.shape[3]) for new in (keys, values)]
            for slab, old in zip(grown, pair or [], strict=False):
                slab[:, :, : old.shape[2]] = old
            pair = self.layers[layer] = grown
        return pair

    def _indices(self, device: torch.device) -> tuple:
        if self._where is None:
            slots = torch.tensor(self._starts, device=device)[:, None] + torch.arange(self._width, device=device)
            self._where = (torch.tensor(self._rows, device=device)[:, None], slice(None), slots)
        return self._where
