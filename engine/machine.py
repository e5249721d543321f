"""What this machine can do for a model: device, number format, memory. Measured or asked for, never guessed."""

import os
import time
from pathlib import Path

import psutil
import torch

from .weights import LoadError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def choose_device(given: str) -> torch.device:
    """The device meant: `auto` is $SPECSCOPE_DEVICE, else cuda if there is one, else cpu."""
    if given == "auto":
        given = os.environ.get("SPECSCOPE_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=given)
        return torch.device(given)
    except (RuntimeError, AssertionError) as error:
        raise LoadError(f"The device {given!r} cannot be used here ({error}). Possible: auto, cpu, cuda.") from error


def choose_dtype(given: str, device: torch.device, hidden: int) -> torch.dtype:
    """The number format meant: `auto` is bfloat16 (else float16) on a GPU and the faster one of two on a CPU."""
    if given in DTYPES:
        return DTYPES[given]
    if given != "auto":
        raise LoadError(f"The number format {given!r} is unknown. Possible: auto, {', '.join(DTYPES)}.")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return min((torch.float32, torch.bfloat16), key=lambda number: linear_seconds(number, hidden))


def linear_seconds(number: torch.dtype, hidden: int) -> float:
    """Seconds that one row and then eight rows take through a square layer of this width, each at its best.

    On one thread: the formats compare alike there, and a busy machine disturbs it least. The call goes round so many
    layers that their weights do not stay in a small cache, as in a model.
    """
    layers = torch.ones(min(16, max(1, 2**22 // hidden**2)), hidden, hidden, dtype=number)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return sum(min(_seconds(torch.ones(n, hidden, dtype=number), layer) for layer in [*layers] * 3) for n in (1, 8))
    finally:
        torch.set_num_threads(threads)


def _seconds(rows: torch.Tensor, layer: torch.Tensor) -> float:
    """Seconds of one linear layer."""
    start = time.perf_counter()
    torch.nn.functional.linear(rows, layer)
    return time.perf_counter() - start


def check_room(folder: Path, stored: torch.dtype, number: torch.dtype, device: torch.device) -> None:
    """Raise LoadError if the weights in this number format cannot fit the memory."""
    needed = sum(file.stat().st_size for file in folder.glob("*.safetensors")) * number.itemsize / stored.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()
    if needed > free:
        raise LoadError(
            f"The weights in {folder} need {needed / 1e9:.1f} GB as {str(number).removeprefix('torch.')}; {device} has "
            f"{free / 1e9:.1f} GB free. Choose a smaller model, a 16-bit number format or another device."
        )


def free_memory() -> int:
    """Bytes of memory that are free, or the limit of the container if that is less."""
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    free = psutil.virtual_memory().available
    return free if text == "max" else min(free, int(text))
