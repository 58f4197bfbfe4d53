# Makes the tiny Hugging Face folders of tests/reference/folders. See README.md.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python make_folders.py [FOLDER [CASE...]]. Writes FOLDER/<case>/, its logits in
FOLDER/<case>.h5, the tokens that all cases share in FOLDER/tokens.h5, and the text that
each continues greedily in FOLDER/<case>.txt."""

import json
import os
import shutil
import sys

import h5py
import numpy as np
import safetensors.torch
import torch
import transformers

SEQUENCE, WINDOWS, VOCABULARY = 16, 2, 67
PROMPT, TEXT, TEXT_POSITIONS = 5, 50, 64  # tokens; positions of the models that write
COMMON = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 4,
          "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": VOCABULARY,
          "max_position_embeddings": SEQUENCE, "bos_token_id": 0, "eos_token_id": 1}


def case(kind, shards=1, dtype=torch.float32, theta=10000.0, rope=None, **settings):
    if kind == "GPT2":
        config = transformers.GPT2Config(
            n_positions=settings.pop("n_positions", SEQUENCE), n_layer=2, n_embd=24, n_head=4, vocab_size=VOCABULARY,
            bos_token_id=0, eos_token_id=1, **settings)
        return transformers.GPT2LMHeadModel, config, shards, dtype
    if not rope or "full_attention" not in rope:
        rope = {"rope_type": "default", **(rope or {}), "rope_theta": theta}
    config = getattr(transformers, {"Gemma3": "Gemma3Text", "Qwen3_5": "Qwen3_5Text",
                                    "Qwen3_5Moe": "Qwen3_5MoeText"}.get(kind, kind) + "Config")(
        **{**COMMON, "rope_parameters": rope, **settings})
    return getattr(transformers, kind + "ForCausalLM"), config, shards, dtype


YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0,
        "truncate": False, "original_max_position_embeddings": 4}
LINEAR = {"layer_types": ["linear_attention", "full_attention"], "head_dim": 8,
          "pad_token_id": None,
          "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
          "linear_value_head_dim": 12,
          "rope": {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0],
                   "mrope_interleaved": True}}
LINEAR_MOE = {**LINEAR, "num_experts": 5, "num_experts_per_tok": 2,
              "moe_intermediate_size": 12, "shared_expert_intermediate_size": 14}
FP8_BLOCK = 16  # neither width of a matrix is a multiple

CASES = {
    "llama": case("Llama", theta=500000.0, rope={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8}),
    "llama_yarn": case("Llama", head_dim=10, tie_word_embeddings=True, rope={
        "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}),
    # Longer than its positions.
    "llama_dynamic": case("Llama", theta=100.0, max_position_embeddings=8, rope={
        "rope_type": "dynamic", "factor": 3.0}),
    "llama_linear": case("Llama", shards=3, dtype=torch.bfloat16, num_key_value_heads=1,
                         rope={"rope_type": "linear", "factor": 2.0}),
    "mistral": case("Mistral", sliding_window=None, head_dim=6),
    "qwen2": case("Qwen2", theta=1e6, tie_word_embeddings=True),
    "qwen3": case("Qwen3", theta=1e6, head_dim=10, shards=2),
    "mixtral": case("Mixtral", theta=1e6, sliding_window=None, num_local_experts=6,
                    num_experts_per_tok=2, shards=2),
    "mistral_window": case("Mistral", sliding_window=5),
    "ministral": case("Ministral", sliding_window=3, num_hidden_layers=3, head_dim=6, layer_types=[
        "full_attention", "sliding_attention", "full_attention"]),
    "qwen2_window": case("Qwen2", use_sliding_window=True, sliding_window=4,
                         max_window_layers=1),
    "qwen3_moe": case("Qwen3Moe", head_dim=8, num_experts=5, num_experts_per_tok=2,
                      moe_intermediate_size=12, norm_topk_prob=True, shards=2),
    "qwen2_moe": case("Qwen2Moe", num_experts=4, num_experts_per_tok=2,
                      num_hidden_layers=3, moe_intermediate_size=12,
                      shared_expert_intermediate_size=14, decoder_sparse_step=2),
    "gemma": case("Gemma", head_dim=10),
    "deepseek_v2": case(
        "DeepseekV2", num_key_value_heads=4, moe_intermediate_size=12, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
        topk_method="group_limited_greedy", n_group=3, topk_group=2, q_lora_rank=None,
        kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, shards=2),
    "deepseek_v3": case(
        "DeepseekV3", num_key_value_heads=4, moe_intermediate_size=12, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1, n_group=2,
        topk_group=1, q_lora_rank=14, kv_lora_rank=10, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=5, rope={
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4,
            "mscale": 0.7, "mscale_all_dim": 0.9}),
    "glm4_moe": case(
        "Glm4Moe", attention_bias=True, head_dim=8, moe_intermediate_size=12,
        n_routed_experts=6, num_experts_per_tok=2, first_k_dense_replace=1, n_group=2,
        topk_group=1, use_qk_norm=True, routed_scaling_factor=1.3),
    "gemma2": case("Gemma2", head_dim=10, sliding_window=6, query_pre_attn_scalar=7,
                   attn_logit_softcapping=3.0, final_logit_softcapping=4.0),
    "gemma3": case("Gemma3", head_dim=10, sliding_window=6, num_hidden_layers=7,
                   query_pre_attn_scalar=12, rope={
                       "full_attention": {"rope_type": "linear", "factor": 2.0,
                                          "rope_theta": 1e6},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
    "olmo2": case("Olmo2", shards=2),
    "olmo3": case("Olmo3", num_hidden_layers=4, sliding_window=6, rope={
        "full_attention": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 5e5,
                           "original_max_position_embeddings": 8},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}),
    "gpt_neox": case("GPTNeoX", rope={"partial_rotary_factor": 0.34}),
    "gpt_neox_sequential": case("GPTNeoX", use_parallel_residual=False, num_hidden_layers=1,
                                rope={"partial_rotary_factor": 0.34}),
    "gpt_oss": case(
        "GptOss", pad_token_id=None, theta=150000.0, head_dim=8, sliding_window=5,
        num_local_experts=5, num_experts_per_tok=2, shards=2, rope=YARN),
    "gpt_oss_mxfp4": case(
        "GptOss", pad_token_id=None, theta=150000.0, head_dim=8, sliding_window=5,
        hidden_size=64, intermediate_size=32, num_hidden_layers=1, num_local_experts=3,
        num_experts_per_tok=2, rope=YARN),
    "qwen3_fp8": case("Qwen3", theta=1e6, head_dim=10),
    # What a class leaves open, and few models use.
    "deepseek_v3_bias": case(
        "DeepseekV3", num_key_value_heads=4, moe_intermediate_size=12, n_routed_experts=4,
        num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=0, n_group=1,
        topk_group=1, q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=8, attention_bias=True, rope_interleave=False,
        norm_topk_prob=False, num_hidden_layers=1),
    "gpt_neox_plain": case("GPTNeoX", attention_bias=False, hidden_act="relu",
                           num_hidden_layers=1, rope={"partial_rotary_factor": 1.0}),
    "gpt_oss_plain": case(
        "GptOss", pad_token_id=None, attention_bias=False, head_dim=8, sliding_window=5,
        num_local_experts=3, num_experts_per_tok=1, num_hidden_layers=2),
    "qwen2_moe_plain": case("Qwen2Moe", qkv_bias=False, hidden_act="gelu", num_experts=3,
                            num_experts_per_tok=2, moe_intermediate_size=12,
                            shared_expert_intermediate_size=14, num_hidden_layers=1),
    "gpt2_scaled": case("GPT2", n_positions=TEXT_POSITIONS, activation_function="relu",
                        scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True),
    "llama_bias": case("Llama", attention_bias=True, mlp_bias=True),
    "phi3": case("Phi3", pad_token_id=None, sliding_window=5, tie_word_embeddings=True, shards=2, rope={
        "partial_rotary_factor": 0.7}),
    "phi3_long": case("Phi3", pad_token_id=None, original_max_position_embeddings=8, rope={
        "rope_type": "longrope", "partial_rotary_factor": 1.0,
        "short_factor": [1.0, 1.5, 1.5], "long_factor": [2.0, 2.5, 4.0]}),
    "smollm3": case("SmolLM3", pad_token_id=None, theta=2e6, num_hidden_layers=4, head_dim=8,
                    use_sliding_window=True, sliding_window=6, no_rope_layers=[1, 1, 0, 1],
                    attention_bias=True),
    "gpt2_long": case("GPT2", n_positions=TEXT_POSITIONS),
    "qwen3_5": case("Qwen3_5", **LINEAR),
    "qwen3_5_vision": case("Qwen3_5", tie_word_embeddings=True, **LINEAR),
    "qwen3_5_moe": case("Qwen3_5Moe", **LINEAR_MOE),
    "qwen3_5_moe_vision": case("Qwen3_5Moe", tie_word_embeddings=True, **LINEAR_MOE),
    "gpt2": case("GPT2", tie_word_embeddings=True),
    "gpt2_untied": case("GPT2", tie_word_embeddings=False, n_inner=40),
}

# Too few learned positions, weights that this function would have to decode, or parts that
# are no model.
NO_TEXT = ("gpt2", "gpt2_untied", "gpt_oss_mxfp4", "qwen3_fp8", "qwen3_5_vision",
           "qwen3_5_moe_vision")


def randomise(model, rng):
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(torch.from_numpy(0.1 * rng.standard_normal(tuple(buffer.shape))))
    for name, parameter in model.named_parameters():
        normal = rng.standard_normal(tuple(parameter.shape))
        values = 0.15 * normal if parameter.dim() > 1 else 0.1 * normal
        if "conv1d" in name:  # else what follows, which is normed, is next to nothing
            values = 6 * values
        if name.endswith("weight") and parameter.dim() == 1:
            values = 1.0 + 0.2 * normal
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def to_mxfp4(weights):
    """[E, in, out] as blocks of 32 inputs: codes, exponents, and what transformers reads."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    rows = np.swapaxes(weights.numpy(), 1, 2)
    rows = rows.reshape(*rows.shape[:2], -1, 32)
    largest = np.maximum(np.abs(rows).max(-1), 1e-30)
    exponent = np.floor(np.log2(largest)).astype(int) - 2
    scaled = rows / np.exp2(exponent)[..., None]
    codes = np.abs(np.abs(scaled)[..., None] - values).argmin(-1) + 8 * (scaled < 0)
    blocks = torch.from_numpy((codes[..., 0::2] + 16 * codes[..., 1::2]).astype(np.uint8))
    scales = torch.from_numpy((exponent + 127).astype(np.uint8))
    return blocks, scales, convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)


def to_fp8(weight):
    """Codes, the scales of blocks, and the numbers that they stand for."""
    grid = [-(-extent // FP8_BLOCK) for extent in weight.shape]
    scales = torch.zeros(grid)
    codes = torch.zeros(weight.shape, dtype=torch.float8_e4m3fn)
    numbers = torch.zeros(weight.shape)
    for i in range(grid[0]):
        for j in range(grid[1]):
            at = np.s_[i * FP8_BLOCK:(i + 1) * FP8_BLOCK, j * FP8_BLOCK:(j + 1) * FP8_BLOCK]
            scales[i, j] = weight[at].abs().max() / 448
            codes[at] = (weight[at] / scales[i, j]).to(torch.float8_e4m3fn)
            numbers[at] = codes[at].float() * scales[i, j]
    return codes, scales, numbers


def quantize(model, path, how):
    """Rewrites a folder with codes, and gives the model the numbers of these codes."""
    file = os.path.join(path, "model.safetensors")
    tensors, stored = safetensors.torch.load_file(file), {}
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        if how == "mxfp4" and name.endswith(("gate_up_proj", "down_proj")):
            blocks, scales, numbers = to_mxfp4(tensor)
            stored |= {name + "_blocks": blocks, name + "_scales": scales}
        elif how == "fp8" and "_proj." in name:
            stored[name], stored[name + "_scale_inv"], numbers = to_fp8(tensor)
        else:
            stored[name] = tensor
            continue
        with torch.no_grad():
            parameters[name].copy_(numbers)
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in stored.items()},
                                file, metadata={"format": "pt"})
    return {"mxfp4": {"quant_method": "mxfp4"},
            "fp8": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                    "weight_block_size": [FP8_BLOCK, FP8_BLOCK]}}[how]


def stack(stored):
    """Experts as one tensor of all, gates before what they weigh."""
    experts = sorted((name for name in stored if ".experts." in name),
                     key=lambda name: [int(part) if part.isdigit() else part
                                       for part in name.split(".")])
    for begin in sorted({name.split(".experts.")[0] + ".experts." for name in experts}):
        of = {part: [stored.pop(name) for name in experts
                     if name.startswith(begin) and name.endswith(part + ".weight")]
              for part in ("gate_proj", "up_proj", "down_proj")}
        stored[begin + "gate_up_proj"] = torch.stack(
            [torch.cat(pair) for pair in zip(of["gate_proj"], of["up_proj"])])
        stored[begin + "down_proj"] = torch.stack(of["down_proj"])


def nest(path, settings):
    """The folder of a model with vision, of whose text the model is."""
    file = os.path.join(path, "model.safetensors")
    stored = {name.replace("model.", "model.language_model.", 1): tensor
              for name, tensor in safetensors.torch.load_file(file).items()}
    stored["model.visual.patch_embed.proj.weight"] = torch.ones(2, 3)
    stored["mtp.fc.weight"] = torch.ones(3, 2)
    stack(stored)
    safetensors.torch.save_file(stored, file, metadata={"format": "pt"})
    tied = settings.pop("tie_word_embeddings")
    settings.pop("architectures")
    kind = settings["model_type"].removesuffix("_text")
    name = {"qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}[kind]
    return {"architectures": [name + "ForConditionalGeneration"], "model_type": kind,
            "text_config": settings, "tie_word_embeddings": tied,
            "vision_config": {"depth": 1, "model_type": kind + "_vision"}}


def write(folder, name, tokens, kind, config, shards, dtype):
    model = kind(config).eval()
    randomise(model, np.random.default_rng(len(name)))
    model = model.to(dtype)
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    model.save_pretrained(path, max_shard_size=size // shards + 1 if shards > 1 else "1GB")
    # A key that no program knows, and a tokenizer that nobody reads.
    file = os.path.join(path, "config.json")
    with open(file) as source:
        settings = json.load(source)
    settings["of_nobody"] = {"kept": [1, 2]}
    if name.endswith(("_mxfp4", "_fp8")):
        settings["quantization_config"] = quantize(model, path, name.rsplit("_", 1)[1])
    if name.endswith("_vision"):
        settings = nest(path, settings)
    with open(file, "w") as target:
        json.dump(settings, target, indent=2, sort_keys=True)
    with open(os.path.join(path, "tokenizer.json"), "w") as target:
        json.dump({"version": "1.0", "case": name}, target)
    if getattr(config, "n_positions", SEQUENCE) > SEQUENCE:
        return  # windows of a model with learned positions are as long as these
    with torch.no_grad():
        windows = torch.from_numpy(tokens[:SEQUENCE * WINDOWS]).reshape(WINDOWS, SEQUENCE)
        logits = model.float()(input_ids=windows, use_cache=False).logits
    with h5py.File(path + ".h5", "w") as target:
        target["logits"] = logits.reshape(SEQUENCE * WINDOWS, -1).numpy()


def with_positions(path):
    """The model of a folder, with positions for a text; as in folder_texts.sh."""
    with open(os.path.join(path, "config.json")) as source:
        settings = json.load(source)
    settings.pop("quantization_config", None)
    if settings["max_position_embeddings"] == SEQUENCE:
        settings["max_position_embeddings"] = TEXT_POSITIONS
    config = transformers.AutoConfig.for_model(**settings)
    kind = getattr(transformers, settings["architectures"][0])
    return kind.from_pretrained(path, config=config, dtype=torch.float32,
                                attn_implementation="eager",
                                experts_implementation="eager").eval()


def greedy(model, prompt):
    """The prompt and what follows, with a cache, and how close a choice was."""
    out = model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=TEXT, use_cache=True,
        attention_mask=torch.ones(1, PROMPT, dtype=torch.long), eos_token_id=None,
        pad_token_id=0, output_scores=True, return_dict_in_generate=True)
    best = [torch.topk(step[0], 2).values for step in out.scores]
    return out.sequences[0].tolist(), min((a - b).item() for a, b in best)


def write_text(folder, name):
    """Of some prompts the one whose text has the most different tokens; no choice in it
    may be as close as roundings are."""
    path = os.path.join(folder, name)
    model = with_positions(path)
    model.generation_config.eos_token_id = None
    rng = np.random.default_rng(7)
    texts = [greedy(model, rng.integers(0, VOCABULARY, PROMPT).tolist()) for _ in range(12)]
    text = max((text for text, gap in texts if gap > 1e-3), key=lambda ids: len(set(ids)))
    with open(path + ".txt", "w") as target:
        print(*text, file=target)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "folders")
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    tokens = np.random.default_rng(1).integers(
        0, VOCABULARY, SEQUENCE * WINDOWS + 1).astype(np.int64)
    tokens[:2] = 0, VOCABULARY - 1
    with h5py.File(os.path.join(folder, "tokens.h5"), "w") as target:
        target["tokens"] = tokens.astype(np.int32)
    for name in sys.argv[2:] or CASES:
        write(folder, name, tokens, *CASES[name])
        if name not in NO_TEXT:
            write_text(folder, name)


if __name__ == "__main__":
    main()
