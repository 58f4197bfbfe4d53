# Makes the tiny quantized folders of tests/reference/quantized. See README.md.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python make_quantized.py [FOLDER]. Writes FOLDER/<case>/, and FOLDER/digests.txt:
for every case and tensor the XXH3-128 of its numbers in float32, as bitsandbytes and
compressed-tensors give them; those of GPTQ and AWQ by the definition of their formats."""

import glob
import json
import os
import shutil
import sys

import make_written_codes
import numpy as np
import safetensors.torch
import torch
import transformers
import xxhash
from bitsandbytes import functional
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

SETTINGS = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 67,
            "max_position_embeddings": 16, "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
ODD = {"hidden_size": 40, "intermediate_size": 22}
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def four_bits(kind, double=False, dtype="float32", storage="uint8"):
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False,
              "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": double,
              "bnb_4bit_compute_dtype": dtype, "bnb_4bit_quant_storage": storage}

    def make(name, weight):
        codes, state = functional.quantize_4bit(
            weight, blocksize=64, quant_type=kind, compress_statistics=double,
            quant_storage=getattr(torch, storage))
        packed = state.as_dict(packed=True)
        numbers = flat_numbers(codes, state)
        if weight.shape[1] % 64 == 0:  # it has blocks end with rows of other widths
            assert torch.equal(numbers, functional.dequantize_4bit(codes, state))
        return {name: codes} | {f"{name}.{k}": v for k, v in packed.items()}, numbers

    return config, make


def flat_numbers(codes, state):
    """Blocks are of elements in order, across the ends of rows."""
    absmax = state.absmax
    if state.nested:
        absmax = functional.dequantize_blockwise(absmax, state.state2) + state.offset
    codes = codes.view(torch.uint8).flatten()
    count = state.shape.numel()
    both = torch.stack([codes >> 4, codes & 15], 1).flatten()[:count].long()
    numbers = state.code[both] * absmax.repeat_interleave(state.blocksize)[:count]
    return numbers.to(state.dtype).reshape(state.shape)


def int8_rows():
    config = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True,
              "llm_int8_threshold": 6.0}

    def make(name, weight):
        codes, scales, _ = functional.int8_vectorwise_quant(weight.half())
        numbers = functional.int8_vectorwise_dequant(codes, scales)
        base = name.removesuffix("weight")
        return {name: codes, base + "SCB": scales,
                base + "weight_format": torch.tensor(0, dtype=torch.uint8)}, numbers

    return config, make


def compressed(form, dtype="bfloat16", **weights):
    """Scales and zero points by hand, codes and numbers by the library."""
    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    config = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
              "quantization_status": "compressed",
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
    library = BaseCompressor.get_value_from_registry(form)

    def make(name, weight):
        weight = weight.to(TYPES[dtype])
        grouped = weight.unflatten(1, (-1, args.group_size or weight.shape[1]))
        low, high = grouped.amin(2).float(), grouped.amax(2).float()
        if weights["strategy"] == "tensor":
            low, high = low.min().reshape(1), high.max().reshape(1)
        most = 448 if args.type == "float" else 2 ** (args.num_bits - 1) - 1
        scale = torch.maximum(-low, high) / most
        local = {"weight": weight}
        if not args.symmetric:
            scale = (high - low) / (2 ** args.num_bits - 1)
            least = -2 ** (args.num_bits - 1)
            zero = (least - low / scale).round().clamp(least, -least - 1)
            local["weight_zero_point"] = zero.to(torch.int8)
        local["weight_scale"] = scale.to(TYPES[dtype])
        stored = library.compress(local, scheme)
        numbers = library.decompress(stored, scheme)["weight"]
        base = name.removesuffix("weight")
        return {base + k: v for k, v in stored.items()}, numbers

    return config, make


def words(codes, bits, dim):
    """Codes packed along a dim into words of 32 bits, the lowest first."""
    codes = np.moveaxis(codes.astype(np.uint64), dim, 0)
    out = np.zeros((-(-codes.shape[0] * bits // 32), *codes.shape[1:]), dtype=np.uint64)
    for i, code in enumerate(codes):
        out[i * bits // 32] |= code << np.uint64(i * bits % 32)
        if i * bits % 32 + bits > 32:
            out[i * bits // 32 + 1] |= code >> np.uint64(32 - i * bits % 32)
    out = (out & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(out, 0, dim)))


def packed_groups(weight, bits, group, groups):
    """Codes, scales in fp16 and zero points of each output's groups of inputs."""
    rows = torch.stack([weight[:, groups == g] for g in range(int(groups.max()) + 1)], 1)
    low, high = rows.amin(2).clamp(max=0), rows.amax(2).clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).half()
    zero = (-low / scale.float()).round().clamp(0, 2**bits - 1)
    code = (weight / scale.float()[:, groups] + zero[:, groups]).round()
    code = code.clamp(0, 2**bits - 1)
    numbers = (code - zero[:, groups]).half() * scale[:, groups]
    return code.numpy().T, scale.T.contiguous(), zero.numpy().T, numbers


def gptq(bits, group, shuffled=False, version="gptq"):
    config = {"quant_method": "gptq", "bits": bits, "group_size": group,
              "desc_act": shuffled, "sym": False, "checkpoint_format": version}

    def make(name, weight):
        inputs = weight.shape[1]
        groups = torch.arange(inputs) // (group if group > 0 else inputs)
        if shuffled:
            groups = groups[torch.from_numpy(np.random.default_rng(3).permutation(inputs))]
        code, scale, zero, numbers = packed_groups(weight, bits, group, groups)
        base = name.removesuffix("weight")
        stored_zero = zero if version == "gptq_v2" else (zero - 1) % 2**bits
        return {base + "qweight": words(code, bits, 0), base + "scales": scale,
                base + "qzeros": words(stored_zero, bits, 1),
                base + "g_idx": groups.to(torch.int32)}, numbers

    return config, make


def awq(group):
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm",
              "zero_point": True}

    def make(name, weight):
        groups = torch.arange(weight.shape[1]) // group
        code, scale, zero, numbers = packed_groups(weight, 4, group, groups)
        base = name.removesuffix("weight")

        def ordered(x):
            return x.reshape(len(x), -1, 8)[:, :, AWQ_ORDER].reshape(x.shape)

        return {base + "qweight": words(ordered(code), 4, 1), base + "scales": scale,
                base + "qzeros": words(ordered(zero), 4, 1)}, numbers

    return config, make


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 16}
CASES = {
    "nf4": ({}, four_bits("nf4")),
    "nf4_double": ({}, four_bits("nf4", True, "bfloat16", "bfloat16")),
    "nf4_odd": (ODD, four_bits("nf4", True, "float16")),
    "fp4": ({}, four_bits("fp4", False, "float16")),
    "int8": ({}, int8_rows()),
    "ct_fp8_tensor": ({}, compressed("float-quantized", num_bits=8, type="float",
                                     strategy="tensor", symmetric=True)),
    "ct_fp8_channel": ({}, compressed("float-quantized", "float32", num_bits=8, type="float",
                                      strategy="channel", symmetric=True)),
    "ct_int8": ({}, compressed("int-quantized", "float16", num_bits=8, type="int",
                               strategy="channel", symmetric=True)),
    "ct_int8_zero": ({}, compressed("int-quantized", num_bits=8, type="int",
                                    strategy="channel", symmetric=False)),
    "ct_int4": ({}, compressed("pack-quantized", symmetric=True, **INT4)),
    "ct_int4_zero": ({}, compressed("pack-quantized", symmetric=False, **INT4)),
    "ct_int3": ({}, compressed("pack-quantized", num_bits=3, type="int", strategy="channel",
                               symmetric=True)),
    "ct_int8_packed": (ODD, compressed("pack-quantized", num_bits=8, type="int",
                                       strategy="channel", symmetric=False)),
    "gptq": ({}, gptq(4, 16)),
    "gptq_order": ({}, gptq(4, 16, shuffled=True)),
    "gptq_v2": ({}, gptq(8, -1, version="gptq_v2")),
    "gptq_3": ({}, gptq(3, 32)),
    "awq": ({}, awq(16)),
}


def write(folder, name):
    settings, (config, make) = CASES[name]
    torch.manual_seed(len(name))
    llama = transformers.LlamaConfig(**(SETTINGS | settings))
    model = transformers.LlamaForCausalLM(llama)
    dtype = TYPES[config.get("bnb_4bit_compute_dtype", "float16")]
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    stored, lines = {}, []
    for key, tensor in model.state_dict().items():
        weight = (torch.randn(tensor.shape) * 0.2).to(dtype)
        numbers = weight
        if "_proj." in key:
            made, numbers = make(key, weight if "bnb_4bit_quant_type" in config
                                 else weight.float())
            stored |= made
        else:
            stored[key] = weight
        digest = xxhash.xxh3_128(numbers.float().contiguous().numpy().tobytes())
        lines.append(f"{name} {digest.hexdigest()} {key}")
    settings = llama.to_dict() | {"architectures": ["LlamaForCausalLM"],
                                  "dtype": str(dtype).removeprefix("torch."),
                                  "quantization_config": config}
    with open(os.path.join(path, "config.json"), "w") as out:
        json.dump(settings, out, indent=2, sort_keys=True)
    stored = {key: tensor.contiguous() for key, tensor in stored.items()}
    safetensors.torch.save_file(stored, os.path.join(path, "model.safetensors"),
                                metadata={"format": "pt"})
    return lines


def written(how, key, weight):
    """The numbers of what `convert --quantize` makes of a tensor, by the libraries."""
    if "_proj." not in key and ".experts." not in key:
        return weight
    if how == "int8":
        return int8_rows()[1](key, weight)[1]
    if how == "fp8":
        scale = weight.abs().amax(1, keepdim=True) / 448
        return (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
    if how == "fp8-blocks":
        (codes, scales), _ = make_written_codes.fp8_blocks(weight)
        scales = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return codes.float() * scales[:weight.shape[0], :weight.shape[1]]
    codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type=how[:3])
    if how.endswith("+"):  # double quantization
        make_written_codes.nested(state)
    return flat_numbers(codes, state)


WRITTEN = {"llama": ("nf4", "nf4+", "fp4", "fp4+", "int8", "fp8", "fp8-blocks"),
           "mixtral": ("nf4+", "int8", "fp8", "fp8-blocks")}


def all_written(folder):
    name = os.path.basename(folder)
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        for key, weight in sorted(safetensors.torch.load_file(path).items()):
            for how in WRITTEN[name]:
                numbers = written(how, key, weight).float().contiguous().numpy()
                digest = xxhash.xxh3_128(numbers.tobytes()).hexdigest()
                yield f"written_{name}_{how} {digest} {key}"


if __name__ == "__main__":
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantized")
    target = sys.argv[1] if len(sys.argv) > 1 else here
    every = [line for name in CASES for line in write(target, name)]
    for model in WRITTEN:
        every += all_written(os.path.join(os.path.dirname(here), "folders", model))
    with open(os.path.join(target, "digests.txt"), "w") as out:
        out.write("\n".join(every) + "\n")
