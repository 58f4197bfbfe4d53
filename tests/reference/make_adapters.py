#!/usr/bin/env python3
# Makes the adapters of tests/reference/adapters with PEFT, beside the models of folders/.
# SPDX-License-Identifier: Apache-2.0
"""Each adapter is a folder as PEFT's save_pretrained writes it, with numbers in all of its
matrices, and NAME.h5, the logits of the model with it on the tokens of folders/tokens.h5.

Needs torch, transformers, peft, safetensors and h5py. `make_adapters.py compare MODEL
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
}


def load(name):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        FOLDERS / name, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


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


def fill(model):
    """Numbers in every matrix, so that nothing may be forgotten."""
    generator = torch.Generator().manual_seed(5)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.requires_grad:
            scale = 0.5 if "lora_A" in name else 0.1
            parameter.data = torch.randn(parameter.shape, generator=generator) * scale


def make():
    for name, (base, settings) in CASES.items():
        model = load(base)
        config = peft.LoraConfig(task_type="CAUSAL_LM", **settings)
        model = peft.get_peft_model(model, config).eval()
        fill(model)
        where = HERE / "adapters" / name
        model.peft_config["default"].base_model_name_or_path = base
        model.save_pretrained(where, save_embedding_layers=False)
        (where / "README.md").unlink(missing_ok=True)
        with h5py.File(HERE / "adapters" / f"{name}.h5", "w") as file:
            file["logits"] = logits_of(model).astype("float32")
        print(name, sorted(p.name for p in where.iterdir()))


def compare(base, adapter, logits):
    model = peft.PeftModel.from_pretrained(load(base), adapter).eval()
    ours = h5py.File(logits)["logits"][...]
    worst = abs(logits_of(model) - ours).max()
    print(f"{adapter}: worst difference {worst:.3g}")
    sys.exit(worst > 2e-5)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compare(*sys.argv[2:])
    make()
