# Makes written_codes.txt, for code_writer_test.cpp, with the libraries that read codes.
# SPDX-License-Identifier: Apache-2.0
"""Writes written_codes.txt: what bitsandbytes, compressed-tensors and transformers make of
matrices on a host.

Each line: way of `convert --quantize` ("+" behind it: double quantization), type of numbers,
kind of numbers, rows, columns, seed, then the digest (FNV-1a, 64 bits) of the bytes of each
tensor, and of bitsandbytes the JSON text of the state. Numbers are those of `numbers`.
"""

import json

import numpy as np
import torch
from bitsandbytes import functional
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from make_block_codes import TYPES, digest
from make_block_codes import numbers as cubes
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Quantize

FACTORS = {"plain": 1.0, "large": 30000.0, "tiny": 2.0**-100}


def numbers(kind, rows, columns, seed):
    """Cubes of uniform numbers; zeros: the first 300 are 0; steps: on a grid of 1 / 64."""
    if kind == "steps":
        i = torch.arange(rows * columns) + seed
        out = ((37 * i) % 101 - 50).float() / 64
    else:
        out = cubes(rows * columns, seed) * FACTORS.get(kind, 1.0)
    if kind == "zeros":
        out[:300] = 0
    return out.reshape(rows, columns)


def nearest(y, code):
    """The nearest number's place, the middle of two going down."""
    return np.searchsorted((code[1:] + code[:-1]) / np.float32(2), y, side="left")


def nested(state):
    """Double quantization, with a mean that is summed in double. bitsandbytes on a host
    finds the nearest number by a table, which gives a neighbour now and then, and any code
    where a block is of subnormal numbers."""
    absmax = state.absmax
    offset = absmax.double().mean().float()
    assert torch.isclose(offset, absmax.mean(), rtol=3e-7, atol=0)
    rest = absmax - offset
    codes, inner = functional.quantize_blockwise(rest, blocksize=256)
    scaled = rest.clone()
    for begin in range(0, len(rest), 256):
        part, most = rest[begin:begin + 256], inner.absmax[begin // 256].clamp(min=1e-38)
        scaled[begin:begin + 256] = part * (1 / most) if len(part) == 256 else part / most
    exact = nearest(scaled.numpy(), inner.code.numpy())
    off = np.abs(exact - codes.numpy().astype(int))
    off[inner.absmax.repeat_interleave(256)[:len(off)].numpy() < 1e-37] = 0
    missed = len(scaled[torch.from_numpy(off > 0)].unique())
    assert off.max() <= 1 and missed <= 1 + len(off) // 100, "the library has other codes"
    state.offset, state.nested, state.state2 = offset, True, inner
    if len(rest) % 256 != 0:  # a rest of zeros keeps what stands in the place of a scale
        inner.absmax[-1] = inner.absmax[-1].clamp(min=1e-38)
    state.absmax = torch.from_numpy(exact.astype(np.uint8))


def four_bits(kind, double):
    def make(weight):
        codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type=kind)
        if double:
            nested(state)
        made = state.as_dict(packed=True)
        text = bytes(made.pop(f"quant_state.bitsandbytes__{kind}").numpy()).decode()
        names = ["absmax", "quant_map"] + ["nested_absmax", "nested_quant_map"] * double
        return [codes, *(made[name] for name in names)], json.dumps(json.loads(text))

    return make


def int8(weight):
    return list(functional.int8_vectorwise_quant(weight.half())[:2]), ""


def compressed(form, **weights):
    args = QuantizationArgs(symmetric=True, **weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    library = BaseCompressor.get_value_from_registry(form)

    def make(weight):
        groups = weight.unflatten(1, (-1, args.group_size or weight.shape[1]))
        scale, _ = calculate_qparams(groups.amin(2), groups.amax(2), args)
        made = library.compress({"weight": weight, "weight_scale": scale}, scheme)
        names = ["weight_packed", "weight_scale", "weight_shape"]
        if args.type == "float":
            names = ["weight", "weight_scale"]
        return [made[name] for name in names], ""

    return make


def fp8_blocks(weight):
    class Quantizer:
        quantization_config = FineGrainedFP8Config()

    rows, columns = weight.shape
    whole = torch.nn.functional.pad(weight, (0, -columns % 128, 0, -rows % 128))
    made = Fp8Quantize(Quantizer()).convert({"x.weight": whole})
    return [made["x.weight"][:rows, :columns], made["x.weight_scale_inv"]], ""


WAYS = {
    "nf4": four_bits("nf4", False), "nf4+": four_bits("nf4", True),
    "fp4": four_bits("fp4", False), "fp4+": four_bits("fp4", True), "int8": int8,
    "fp8": compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
    "fp8-blocks": fp8_blocks,
    "int4": compressed("pack-quantized", num_bits=4, type="int", strategy="group",
                       group_size=128)}
SHAPES = [(130, 256), (5, 37)]
MORE_SHAPES = [(3, 128), (257, 300), (1, 64)]


def lines():
    for way, make in WAYS.items():
        for name, dtype in TYPES.items():
            for kind in ("plain", "zeros", "steps", "large", "tiny"):
                for rows, columns in SHAPES + MORE_SHAPES * (kind == "plain"):
                    if way == "int4" and columns % 128 != 0:
                        continue
                    seed = rows + columns
                    weight = numbers(kind, rows, columns, seed).to(dtype)
                    tensors, text = make(weight)
                    digests = [digest(t.contiguous().view(torch.uint8)) for t in tensors]
                    yield f"{way} {name} {kind} {rows} {columns} {seed} " + " ".join(
                        [*digests, text]).rstrip()


if __name__ == "__main__":
    with open("written_codes.txt", "w") as out:
        out.write("\n".join(lines()) + "\n")
