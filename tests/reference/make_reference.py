# Makes the reference files of this folder with PyTorch and transformers. See README.md.
# SPDX-License-Identifier: Apache-2.0
"""Usage: python make_reference.py [FOLDER [CASE...]]. Writes one HDF5 file for each case.

Everything is computed in double precision. transformers computes some parts (RMSNorm,
rotary angles, the last logits) in float32 whatever the dtype of the model; `in_double`
makes it take float64 there. A finite difference, which any float32 left over would
spoil, checks that it did.
"""

import contextlib
import copy
import importlib
import os
import sys

import h5py
import numpy as np
import torch
import transformers
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.mixtral import modeling_mixtral

# Models of later versions than the one that made the older files.
NEWER = {}


def has_newer(model_type):
    """Whether this version of transformers has the model; its module goes to NEWER."""
    try:
        NEWER[model_type] = importlib.import_module(
            f"transformers.models.{model_type}.modeling_{model_type}")
    except ImportError:
        return False
    return True

BATCH, SEQUENCE, STEPS = 2, 16, 10
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
CLIP, SGD_LEARNING_RATE = 1.0, 0.1
IGNORE_INDEX = -100
GREEDY = 50


def llama(seed, **settings):
    return seed, transformers.LlamaForCausalLM, transformers.LlamaConfig(
        max_position_embeddings=SEQUENCE, rms_norm_eps=1e-5, attention_dropout=0.0,
        attn_implementation="eager", **settings)


def mixtral(seed, **settings):
    return seed, transformers.MixtralForCausalLM, transformers.MixtralConfig(
        max_position_embeddings=SEQUENCE, rms_norm_eps=1e-5, attention_dropout=0.0,
        sliding_window=None, attn_implementation="eager", **settings)


def gpt2(seed, **settings):
    return seed, transformers.GPT2LMHeadModel, transformers.GPT2Config(
        n_positions=SEQUENCE, activation_function="gelu_new", layer_norm_epsilon=1e-5,
        embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, attn_implementation="eager",
        bos_token_id=0, eos_token_id=0, **settings)


def newer(model_type, name, seed, rope_theta, config_name=None, **settings):
    """By model_type and the name of the classes: Qwen3 of Qwen3Config."""
    if not has_newer(model_type):
        return None
    kind = getattr(transformers, f"{name}ForCausalLM")
    config = getattr(transformers, f"{config_name or name}Config")
    return seed, kind, config(**{
        "max_position_embeddings": SEQUENCE, "rms_norm_eps": 1e-6, "attention_dropout": 0.0,
        "attn_implementation": "eager", "experts_implementation": "eager",
        "pad_token_id": None,  # its embedding would have no gradient
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta}, **settings})


def qwen(version, seed, rope_theta, **settings):
    model_type = "qwen" + version.replace("Moe", "_moe")
    return newer(model_type, "Qwen" + version, seed, rope_theta,
                 **{"use_sliding_window": False, **settings})


SMALL = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 12, "vocab_size": 43, "bos_token_id": 0, "eos_token_id": 1}

RECURRENT = ("qwen3_5_text", "qwen3_5_moe_text")  # generation has a state of its own

CASES = {
    "llama_tied": llama(
        1, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=40, vocab_size=67, rope_theta=10000.0,
        tie_word_embeddings=True),
    "llama_untied": llama(
        2, num_hidden_layers=3, hidden_size=32, num_attention_heads=4,
        num_key_value_heads=1, intermediate_size=56, vocab_size=101,
        rope_theta=500000.0, tie_word_embeddings=False),
    "gpt2_tied": gpt2(
        3, n_layer=2, n_embd=24, n_head=3, vocab_size=67, tie_word_embeddings=True),
    "gpt2_untied": gpt2(
        4, n_layer=2, n_embd=24, n_head=3, n_inner=40, vocab_size=67,
        tie_word_embeddings=False),
    "mixtral": mixtral(
        5, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=20, vocab_size=67, rope_theta=10000.0,
        num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=False),
    "qwen2": qwen(
        "2", 6, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=20, vocab_size=67, rope_theta=1e6,
        tie_word_embeddings=True),
    "qwen3": qwen(
        "3", 7, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=1, head_dim=10, intermediate_size=20, vocab_size=67,
        rope_theta=1e6, tie_word_embeddings=False),
    "qwen3_window": qwen(
        "3", 8, num_hidden_layers=3, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, intermediate_size=20, vocab_size=67,
        rope_theta=1e4, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "qwen3_moe": qwen(
        "3Moe", 9, num_hidden_layers=2, hidden_size=24, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, intermediate_size=28, moe_intermediate_size=12,
        num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, vocab_size=67,
        rope_theta=1e4, tie_word_embeddings=False, use_sliding_window=True,
        sliding_window=7),
    "qwen2_moe": qwen(
        "2Moe", 10, num_hidden_layers=3, hidden_size=16, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=20, moe_intermediate_size=6,
        shared_expert_intermediate_size=10, num_experts=5, num_experts_per_tok=2,
        norm_topk_prob=False, vocab_size=41, rope_theta=1e4, tie_word_embeddings=False,
        use_sliding_window=True, sliding_window=7, mlp_only_layers=[1]),
    "gemma": newer(
        "gemma", "Gemma", 11, 1e4, num_hidden_layers=2, hidden_size=18,
        num_attention_heads=3, num_key_value_heads=1, head_dim=8, intermediate_size=20,
        vocab_size=41, tie_word_embeddings=True),
    "deepseek_v2": newer(
        "deepseek_v2", "DeepseekV2", 12, 1e4, num_hidden_layers=2, hidden_size=16,
        num_attention_heads=4, num_key_value_heads=4, intermediate_size=20,
        moe_intermediate_size=6,
        n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
        first_k_dense_replace=1, topk_method="greedy", n_group=None, topk_group=None,
        routed_scaling_factor=1.5, q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=8, vocab_size=41, tie_word_embeddings=False),
    "deepseek_v3": newer(
        "deepseek_v3", "DeepseekV3", 13, 1e4, num_hidden_layers=2, hidden_size=16,
        num_attention_heads=4, num_key_value_heads=4, intermediate_size=20,
        moe_intermediate_size=6,
        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, n_group=3,
        topk_group=2, first_k_dense_replace=0, routed_scaling_factor=1.5, q_lora_rank=12,
        kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=10,
        vocab_size=41, tie_word_embeddings=False),
    # Biases of feed-forwards and of the shared expert; experts in groups.
    "deepseek_v2_bias": newer(
        "deepseek_v2", "DeepseekV2", 27, 1e4, num_hidden_layers=2, hidden_size=16,
        num_attention_heads=2, num_key_value_heads=2, intermediate_size=12,
        moe_intermediate_size=6, n_routed_experts=4, num_experts_per_tok=1,
        n_shared_experts=1, first_k_dense_replace=1, topk_method="group_limited_greedy",
        n_group=2, topk_group=1, q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=8, mlp_bias=True, vocab_size=29,
        tie_word_embeddings=False),
    # Biases, pairs of halves that turn, exact GELU with gates.
    "deepseek_v3_bias": newer(
        "deepseek_v3", "DeepseekV3", 22, 1e4, num_hidden_layers=1, hidden_size=16,
        num_attention_heads=2, num_key_value_heads=2, intermediate_size=20,
        moe_intermediate_size=6, n_routed_experts=4, num_experts_per_tok=2,
        n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=0,
        q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4,
        v_head_dim=8, attention_bias=True, rope_interleave=False, hidden_act="gelu",
        vocab_size=29, tie_word_embeddings=False),
    "glm4_moe": newer(
        "glm4_moe", "Glm4Moe", 14, 1e4, num_hidden_layers=2, hidden_size=16,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, attention_bias=True,
        use_qk_norm=True, intermediate_size=20, moe_intermediate_size=6,
        n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=1,
        topk_group=1, first_k_dense_replace=1, vocab_size=41, tie_word_embeddings=False),
    "gemma2": newer(
        "gemma2", "Gemma2", 15, 1e4, num_hidden_layers=2, hidden_size=18,
        num_attention_heads=3, num_key_value_heads=1, head_dim=8, intermediate_size=20,
        query_pre_attn_scalar=5, sliding_window=5, attn_logit_softcapping=1.5,
        final_logit_softcapping=2.0, vocab_size=41, tie_word_embeddings=True),
    # Norms of heads, and a base of their own for layers with a window.
    "gemma3": newer(
        "gemma3", "Gemma3", 24, None, config_name="Gemma3Text", num_hidden_layers=3,
        hidden_size=18, num_attention_heads=3, num_key_value_heads=1, head_dim=8,
        intermediate_size=20, query_pre_attn_scalar=200, sliding_window=5, vocab_size=41,
        tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e2}}),
    # Windows in all layers, heads of a width of their own.
    "mistral": newer(
        "mistral", "Mistral", 25, None, num_hidden_layers=2, head_dim=6, sliding_window=7,
        rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters={
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8}, **SMALL),
    # Sequences twice as long as the model's positions, whose base grows with them.
    "llama_dynamic": newer(
        "llama", "Llama", 26, None, num_hidden_layers=2, rms_norm_eps=1e-5, **{
            **SMALL, "hidden_size": 24, "max_position_embeddings": 8, "rope_parameters": {
                "rope_type": "dynamic", "rope_theta": 1e2, "factor": 3.0}}),
    "olmo2": newer(
        "olmo2", "Olmo2", 17, 1e4, num_hidden_layers=2, hidden_size=16,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=20, vocab_size=41,
        tie_word_embeddings=False),
    "olmo3": newer(
        "olmo3", "Olmo3", 18, None, num_hidden_layers=4, hidden_size=16,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=20, vocab_size=41,
        tie_word_embeddings=False, sliding_window=5, rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
    "gpt_neox": newer(
        "gpt_neox", "GPTNeoX", 19, None, num_hidden_layers=2, hidden_size=24,
        num_attention_heads=3, intermediate_size=20, vocab_size=41,
        tie_word_embeddings=False, rope_parameters={
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
    "gpt_neox_sequential": newer(
        "gpt_neox", "GPTNeoX", 21, None, use_parallel_residual=False, num_hidden_layers=2,
        hidden_size=16, num_attention_heads=2, intermediate_size=12, vocab_size=29,
        tie_word_embeddings=False, rope_parameters={
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
    # Stacked experts with gate and up interleaved; sinks, and biases everywhere.
    "gpt_oss": newer(
        "gpt_oss", "GptOss", 20, None, **{
            **SMALL, "num_hidden_layers": 2, "head_dim": 6, "intermediate_size": 6,
            "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 4.0,
                "beta_slow": 1.0, "truncate": False,
                "original_max_position_embeddings": 8}}),
    "llama_bias": newer(
        "llama", "Llama", 10, 1e4, num_hidden_layers=2, attention_bias=True,
        rms_norm_eps=1e-5, **SMALL),
    # Fused tensors; a part of each head turns, by the divisors of long texts.
    "phi3": newer(
        "phi3", "Phi3", 11, 1e4, **{
            **SMALL, "num_hidden_layers": 2, "hidden_size": 24, "sliding_window": 6,
            "rms_norm_eps": 1e-5, "original_max_position_embeddings": 8,
            "rope_parameters": {
                "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.7,
                "short_factor": [1.0, 1.25], "long_factor": [1.5, 3.0]}}),
    # The second layer has no positions, the third a window instead.
    "smollm3": newer(
        "smollm3", "SmolLM3", 12, 2e4, num_hidden_layers=3, no_rope_layers=[1, 0, 0],
        use_sliding_window=True, sliding_window=5, tie_word_embeddings=True,
        layer_types=["full_attention", "full_attention", "sliding_attention"], **SMALL),
    # Linear attention in the first layer, value heads that share key heads; gates
    # behind attention, a part of each of whose heads turns. The output of a first token is
    # its value times q k, whose sign alone the norm behind it would see without a large eps.
    "qwen3_5": newer(
        "qwen3_5", "Qwen3_5", 22, 1e4, config_name="Qwen3_5Text", **{
            **SMALL, "num_hidden_layers": 2, "head_dim": 8, "rms_norm_eps": 1e-2,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 6, "tie_word_embeddings": False,
            "layer_types": ["linear_attention", "full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                "partial_rotary_factor": 0.5}}),
    "qwen3_5_moe": newer(
        "qwen3_5_moe", "Qwen3_5Moe", 23, 1e4, config_name="Qwen3_5MoeText", **{
            **{key: SMALL[key] for key in SMALL if key != "intermediate_size"},
            "num_hidden_layers": 2, "head_dim": 8, "rms_norm_eps": 1e-2,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 8, "linear_value_head_dim": 6,
            "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 6,
            "shared_expert_intermediate_size": 10, "tie_word_embeddings": False,
            "layer_types": ["linear_attention", "full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                "partial_rotary_factor": 0.5}}),
}


class Torch64:
    """The torch module, but float32 is float64."""
    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_double():
    modules = (modeling_llama, modeling_gpt2, modeling_mixtral, *NEWER.values(),
               transformers.modeling_rope_utils)
    to_float = torch.Tensor.float
    for module in modules:
        module.torch = Torch64()
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)  # of Mixtral's tables of cosines
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.Tensor.float = to_float
        for module in modules:
            module.torch = torch


def randomise(model, rng):
    """Values that float32 holds exactly, so that every precision starts from the same."""
    for name, parameter in model.named_parameters():
        normal = rng.standard_normal(tuple(parameter.shape))
        if "conv1d" in name:  # less, and what follows, which is normed, is next to nothing
            values = normal
        elif parameter.dim() > 1:
            values = rng.uniform(0.1, 0.2) * normal
        elif name.endswith("weight"):  # the gain of a norm
            values = 1.0 + 0.2 * normal
        else:
            values = 0.1 * normal
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def build(seed, kind, config):
    model = kind(copy.deepcopy(config))
    randomise(model, np.random.default_rng(seed))
    return model.train()  # all dropout is zero


def make_tokens(seed, vocabulary):
    rng = np.random.default_rng(1000 + seed)
    tokens = rng.integers(0, vocabulary, (BATCH, SEQUENCE + 1))
    tokens[0, :2] = 0, vocabulary - 1  # both ends of the vocabulary
    targets = tokens[:, 1:].copy()
    targets[0, 5] = targets[1, 0] = targets[1, SEQUENCE - 1] = IGNORE_INDEX
    return tokens[:, :-1], targets


def evaluate(model, inputs, targets):
    """Logits [B * S, V], and the loss: the mean over targets that are not ignored."""
    logits = model(input_ids=torch.from_numpy(inputs), use_cache=False).logits
    logits = logits.reshape(BATCH * SEQUENCE, -1)
    loss = torch.nn.functional.cross_entropy(
        logits, torch.from_numpy(targets).reshape(-1), ignore_index=IGNORE_INDEX)
    return logits, loss


def unstacked(name, tensor):
    """gpt-oss's experts: [E, in, out] and biases, columns of gate and up in turns."""
    at, kind = name.rsplit(".", 1)
    end = "bias" if kind.endswith("_bias") else "weight"
    kind = kind.removesuffix("_bias")
    for i, each in enumerate(tensor):
        rows = each if each.dim() == 1 else each.t()
        if kind == "gate_up_proj":
            yield f"{at}.{i}.gate_proj.{end}", rows[0::2]
            yield f"{at}.{i}.up_proj.{end}", rows[1::2]
        else:
            yield f"{at}.{i}.{kind}.{end}", rows


def unpacked(tensors):
    """From version 5 on a layer's experts are two tensors; folders have three for each.
    GPT-NeoX's head has another name in folders."""
    neox = any(name.startswith("gpt_neox.") for name in tensors)
    interleaved = any(name.endswith("gate_up_proj_bias") for name in tensors)
    for name, tensor in tensors.items():
        if interleaved and ".experts." in name:
            yield from unstacked(name, tensor)
            continue
        if neox and name == "lm_head.weight":
            name = "embed_out.weight"
        if name.endswith("experts.gate_up_proj"):
            for i, (gate, up) in enumerate(t.chunk(2) for t in tensor):
                at = name.removesuffix("gate_up_proj") + f"{i}."
                yield at + "gate_proj.weight", gate
                yield at + "up_proj.weight", up
        elif name.endswith("experts.down_proj"):
            for i, down in enumerate(tensor):
                yield name.removesuffix("down_proj") + f"{i}.down_proj.weight", down
        else:
            yield name, tensor


def as_out_in(model, tensors):
    """GPT-2's Conv1D keeps [in, out]; every file here has [out, in]."""
    transposed = {name + ".weight" for name, module in model.named_modules()
                  if isinstance(module, transformers.pytorch_utils.Conv1D)}
    # Convolutions of single channels keep [channels, 1, taps]; here [channels, taps].
    tensors = {name: tensor.squeeze(1) if tensor.dim() == 3 and "conv1d" in name else tensor
               for name, tensor in tensors.items()}
    return {name: (tensor.t() if name in transposed else tensor).detach().numpy().copy()
            for name, tensor in unpacked(tensors)}


def weights_of(model):
    return as_out_in(model, dict(model.named_parameters()))


def gradients_of(model):
    return as_out_in(model, {n: p.grad for n, p in model.named_parameters()})


def check_gradients(model, inputs, targets, rng):
    """Central difference along a random direction, relative error O(h^4) + eps / h."""
    parameters = list(model.parameters())
    direction = [torch.from_numpy(rng.standard_normal(tuple(p.shape))) for p in parameters]
    h, losses = 1e-6, []
    expected = sum((p.grad * d).sum().item() for p, d in zip(parameters, direction))
    with torch.no_grad():
        for step in (h, h, -3 * h, -h, 2 * h):  # to h, 2 h, -h, -2 h, and back
            for parameter, d in zip(parameters, direction):
                parameter.add_(d, alpha=step)
            losses.append(evaluate(model, inputs, targets)[1].item())
    slope = (8 * (losses[0] - losses[2]) - (losses[1] - losses[3])) / (12 * h)
    error = abs(slope - expected) / abs(expected)
    assert error < 1e-7, f"finite difference: relative error {error:.1e}"
    return error


def train_adamw(model, inputs, targets):
    """STEPS steps on one batch; norms and biases (one dim) do not decay."""
    # The biases of all experts are one tensor of two dims.
    named = [(p, p.dim() > 1 and not n.endswith("bias")) for n, p in model.named_parameters()]
    matrices = [p for p, is_matrix in named if is_matrix]
    vectors = [p for p, is_matrix in named if not is_matrix]
    optimizer = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], foreach=False,
        **ADAMW)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = evaluate(model, inputs, targets)[1]
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))
        # clip_grad_norm_ adds 1e-6 to the norm; here it is exact.
        for gradient in gradients:
            gradient.mul_(torch.clamp(CLIP / norm, max=1.0))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return np.array(losses), np.array(norms)


def theta_of(config):
    parameters = getattr(config, "rope_parameters", None)  # from version 5 on
    return parameters.get("rope_theta", 0.0) if parameters else config.rope_theta


def config_of(config):
    is_llama = config.model_type != "gpt2"  # or with its attention
    hidden, heads = config.hidden_size, config.num_attention_heads
    integers = {
        "layers": config.num_hidden_layers, "hidden": hidden, "heads": heads,
        "kv_heads": getattr(config, "num_key_value_heads", heads) if is_llama else heads,
        "feed_forward": getattr(config, "intermediate_size", 1) if is_llama
        else config.n_inner or 4 * hidden,
        "vocabulary": config.vocab_size, "sequence": SEQUENCE, "batch": BATCH,
        "tie_embeddings": int(config.tie_word_embeddings), "steps": STEPS}
    if getattr(config, "head_dim", None):
        integers["head_width"] = config.head_dim
    if config.model_type == "mixtral":
        integers |= {"experts": config.num_local_experts,
                     "top_k": config.num_experts_per_tok}
    reals = {
        "rope_theta": theta_of(config) if is_llama else 0.0,
        "norm_eps": getattr(config, "rms_norm_eps", 1e-5) if is_llama
        else config.layer_norm_epsilon,
        "learning_rate": ADAMW["lr"], "beta1": ADAMW["betas"][0],
        "beta2": ADAMW["betas"][1], "eps": ADAMW["eps"],
        "weight_decay": ADAMW["weight_decay"], "clip": CLIP,
        "sgd_learning_rate": SGD_LEARNING_RATE}
    texts = {
        "architecture": config.model_type, "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__, "numpy": np.__version__}
    return integers, reals, texts


def write_config(file, config):
    """Integers and texts are attributes; reals are attributes and datasets of one."""
    integers, reals, texts = config_of(config)
    for key, value in integers.items():
        file.attrs[key] = np.int64(value)
    for key, value in reals.items():
        file.attrs[key] = np.float64(value)
        file[f"config/{key}"] = np.array([value])
    for key, value in texts.items():
        file.attrs[key] = np.bytes_(value)
    older = config.model_type in ("llama", "gpt2", "mixtral", "qwen2")
    rope = getattr(config, "rope_parameters", None) or {}
    if not older or getattr(config, "attention_bias", False) or "factor" in rope:
        file["config.json"] = np.frombuffer(config.to_json_string().encode(), np.uint8)


def greedy(model, prompt):
    """The prompt and GREEDY tokens, each the likeliest after all before it."""
    tokens = torch.from_numpy(prompt)[None]
    with torch.no_grad():
        for _ in range(GREEDY):
            logits = model(input_ids=tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    return tokens[0].numpy()


def write_case(path, seed, kind, config):
    inputs, targets = make_tokens(seed, config.vocab_size)
    logits_f32 = evaluate(build(seed, kind, config), inputs, targets)[0].detach().numpy()
    with in_double():
        # Built again, not converted: the rotary frequencies are made when it is built.
        model = build(seed, kind, config).double()
        start = weights_of(model)
        logits, loss = evaluate(model, inputs, targets)
        loss.backward()
        assert logits.dtype == loss.dtype == torch.float64
        logits, loss = logits.detach().numpy(), loss.item()
        gradients = gradients_of(model)
        text = greedy(model, inputs[0, :5]) if config.model_type in RECURRENT else None
        probe = build(seed, kind, config).double()
        evaluate(probe, inputs, targets)[1].backward()
        error = check_gradients(probe, inputs, targets, np.random.default_rng(2000 + seed))
        sgd = {n: start[n] - SGD_LEARNING_RATE * gradients[n] for n in start}
        losses, norms = train_adamw(model, inputs, targets)
    groups = {"weights": {n: w.astype(np.float32) for n, w in start.items()},
              "gradients": gradients, "sgd_weights": sgd,
              "final_weights": weights_of(model)}
    with h5py.File(path, "w") as file:
        write_config(file, config)
        file["input_ids"] = inputs.astype(np.int32)
        file["targets"] = targets.astype(np.int32)
        if text is not None:
            file["greedy"] = text.astype(np.int32)
        file["logits"], file["logits_f32"] = logits, logits_f32
        file["loss"], file["losses"], file["norms"] = np.array([loss]), losses, norms
        for group, tensors in groups.items():
            for name, tensor in tensors.items():
                file[f"{group}/{name}"] = np.ascontiguousarray(tensor)
    difference = np.abs(logits_f32 - logits).max()
    print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes, {len(start)} tensors,"
          f" loss {losses[0]:.6f} to {losses[-1]:.6f}, norm {norms[0]:.3f} to"
          f" {norms[-1]:.3f}, float32 logits within {difference:.1e}, finite difference"
          f" {error:.1e}")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(__file__) or "."
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    names = sys.argv[2:] or list(CASES)
    for name, case in ((name, CASES[name]) for name in names):
        write_case(os.path.join(folder, name + ".h5"), *case)


if __name__ == "__main__":
    main()
