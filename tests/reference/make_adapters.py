#!/usr/bin/env python3
# Makes the adapters of tests/reference/adapters with PEFT, beside the models of folders/.
# SPDX-License-Identifier: Apache-2.0
"""Each adapter is a folder as PEFT's save_pretrained writes it, with numbers in all of its
matrices, and NAME.h5, the logits of the model with it on the tokens of folders/tokens.h5; of
some also NAME_gradients.h5, the gradients of the mean loss of those tokens in fp64.

`make_adapters.py [NAME...]` makes all, or some. Needs torch, transformers, peft, safetensors
and h5py. `make_adapters.py compare MODEL
ADAPTER LOGITS.h5` loads an adapter with PEFT and compares its logits with a file.
"""
import pathlib
import sys

import h5py
import peft
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = HERE / "folders"

CASES = {
    "llama": ("llama", dict(r=4, lora_alpha=6, target_modules="all-linear",
                            rank_pattern={"q_proj": 2}, alpha_pattern={"mlp.up_proj": 9})),
    "llama_saved": ("llama", dict(r=3, lora_alpha=5, use_rslora=True,
                                  target_modules=["q_proj", "v_proj"],
                                  modules_to_save=["lm_head"])),
    "gpt2": ("gpt2", dict(r=4, lora_alpha=8, fan_in_fan_out=True,
                          target_modules=["c_attn", "c_proj", "c_fc"])),
    "gpt_neox": ("gpt_neox", dict(r=4, lora_alpha=8,
                                  target_modules=["query_key_value", "dense"])),
    "phi3": ("phi3", dict(r=2, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj"])),
    "deepseek_v3": ("deepseek_v3", dict(r=2, lora_alpha=4, target_modules=[
        "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"])),
    "llama_dora": ("llama", dict(r=3, lora_alpha=6, use_dora=True, target_modules="all-linear",
                                 alpha_pattern={"mlp.up_proj": 9})),
    "gpt2_dora": ("gpt2", dict(r=2, lora_alpha=4, use_dora=True, fan_in_fan_out=True,
                               target_modules=["c_attn", "c_proj", "c_fc"])),
}
GRADIENTS = ["llama_dora", "gpt2_dora"]
# Beside what NF4 codes of the linear layers stand for, dequantized.
CODED = {"llama_nf4": ("llama", dict(r=3, lora_alpha=6, target_modules="all-linear"))}
CASES |= CODED
NF4 = torch.tensor([
    -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1])


def load(name, dtype=torch.float32):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        FOLDERS / name, dtype=dtype, attn_implementation="eager")
    return model.eval()


def round_to_nf4(model):
    """Blocks of 64 along rows and across their ends; the middle goes to the lower code."""
    for module in model.model.layers.modules():
        if not isinstance(module, torch.nn.Linear):
            continue
        numbers = module.weight.data.flatten()
        blocks = torch.nn.functional.pad(numbers, (0, -len(numbers) % 64)).view(-1, 64)
        largest = blocks.abs().amax(1, keepdim=True).clamp_min(1e-38)
        codes = torch.bucketize(blocks * (1 / largest), (NF4[1:] + NF4[:-1]) / 2)
        module.weight.data = (NF4[codes] * largest).flatten()[:len(numbers)].view_as(
            module.weight)


def tokens():
    with h5py.File(FOLDERS / "tokens.h5") as file:
        return torch.tensor(file[list(file)[0]][...].astype("int64"))


def logits_of(model):
    """The windows of `trireme evaluate`: as many inputs as the model has positions."""
    ids = tokens()
    window = model.config.max_position_embeddings
    rows = []
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, window):
            part = ids[begin:min(begin + window, len(ids) - 1)]
            rows.append(model(part[None]).logits[0])
    return torch.cat(rows).double().numpy()


def gradients_of(model):
    """By the names that checkpoints have, of windows of as many tokens as there are positions."""
    ids, window = tokens(), model.config.max_position_embeddings
    rows = [ids[begin:begin + window + 1] for begin in range(0, len(ids) - window, window)]
    ids = torch.stack(rows)
    logits = model(ids[:, :-1]).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        name = name.removeprefix("base_model.model.").replace(".default", "")
        if "magnitude" in name:
            name = name.removesuffix(".weight")
        yield name, parameter.grad.numpy()


def fill(model):
    """Numbers in every matrix, so that nothing may be forgotten."""
    generator = torch.Generator().manual_seed(5)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.requires_grad:
            if "magnitude" in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.data *= 1 + 0.2 * noise
                continue
            scale = 0.5 if "lora_A" in name else 0.1
            parameter.data = torch.randn(parameter.shape, generator=generator) * scale


def make(names):
    for name in names or CASES:
        base, settings = CASES[name]
        model = load(base)
        if name in CODED:
            round_to_nf4(model)
        config = peft.LoraConfig(task_type="CAUSAL_LM", **settings)
        model = peft.get_peft_model(model, config).eval()
        fill(model)
        where = HERE / "adapters" / name
        model.peft_config["default"].base_model_name_or_path = base
        model.save_pretrained(where, save_embedding_layers=False)
        (where / "README.md").unlink(missing_ok=True)
        with h5py.File(HERE / "adapters" / f"{name}.h5", "w") as file:
            file["logits"] = logits_of(model).astype("float32")
        if name in GRADIENTS:
            wide = peft.PeftModel.from_pretrained(load(base, torch.float64), where,
                                                  is_trainable=True).double().eval()
            with h5py.File(HERE / "adapters" / f"{name}_gradients.h5", "w") as file:
                for tensor, gradient in gradients_of(wide):
                    file[tensor] = gradient.astype("float32")
        print(name, sorted(p.name for p in where.iterdir()))


def compare(base, adapter, logits):
    model = peft.PeftModel.from_pretrained(load(base), adapter).eval()
    ours = h5py.File(logits)["logits"][...]
    worst = abs(logits_of(model) - ours).max()
    print(f"{adapter}: worst difference {worst:.3g}")
    sys.exit(1 if worst > 2e-5 else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        compare(*sys.argv[2:])
    make(sys.argv[1:])
