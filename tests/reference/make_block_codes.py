# Makes block_codes.txt, for block_codes_test.cpp, with bitsandbytes.
# SPDX-License-Identifier: Apache-2.0
"""Writes block_codes.txt: digests of what bitsandbytes makes of numbers on a host.

Each line: type of codes, type of numbers, elements, elements of a block, seed, then
digests (FNV-1a, 64 bits) of the bytes of codes, of absmax in float32 and of the numbers
that come back, in their type. Numbers are those of `numbers`.
"""

import numpy as np
import torch
from bitsandbytes import functional

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def numbers(count, seed):
    """Cubes of uniform numbers between -1 and 1."""
    state, out = seed, np.empty(count, dtype=np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = np.float32((state >> 8) - 2**23) / np.float32(2**23)
    return torch.from_numpy(out * out * out)


def digest(tensor):
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    value = 0xCBF29CE484222325
    for byte in tensor.contiguous().numpy().tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def lines():
    cases = [(64, 64), (1000, 64), (4096, 64), (37, 64), (4097, 128), (2048, 4096)]
    for kind in ("nf4", "fp4"):
        for name, dtype in TYPES.items():
            for count, block in cases:
                seed = count + block
                # One row: blocks then cross the ends of none.
                x = numbers(count, seed).to(dtype).reshape(1, count)
                codes, state = functional.quantize_4bit(
                    x, blocksize=block, quant_type=kind
                )
                # It is not of one mind on the sign of the second zero of FP4.
                back = functional.dequantize_4bit(codes, state) + 0.0
                digests = [digest(t.flatten()) for t in (codes, state.absmax, back)]
                yield " ".join(map(str, [kind, name, count, block, seed] + digests))


if __name__ == "__main__":
    with open(__file__.replace("make_block_codes.py", "block_codes.txt"), "w") as out:
        out.write("\n".join(lines()) + "\n")
