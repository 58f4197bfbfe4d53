// Rules about the model and its experts.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

namespace {

// Whether what makes the heads of latent attention, and what they make, have widths on
// each rank that `multiple` divides.
bool latent_fits(const model::ModelConfig& m, int ranks, std::int64_t multiple) {
  const auto& latent = m.attention.latent;
  if (latent.width % multiple != 0 || latent.query_width % multiple != 0) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t heads = split_range(m.heads, ranks, rank).count();
    const std::int64_t plain = m.head_width() - m.rotary_width();
    for (const std::int64_t width :
         {m.head_width(), plain + m.value_width(), m.value_width()})
      if (heads * width % multiple != 0) return false;
  }
  return true;
}

}  // namespace

void ModelRules::head_rules() {
  const auto& m = config_.model;
  const bool rotary = m.row().positions == model::Positions::rotary;
  if (m.own_head_width == 0)
    divides({key::model.heads, m.heads}, {key::model.hidden, m.hidden});
  divides({key::model.kv_heads, m.kv_heads}, {key::model.heads, m.heads}, Mend::part);
  rule(
      {key::model.hidden, key::model.heads, key::model.architecture},
      [&] {
        return !rotary || m.own_head_width > 0 || m.hidden % m.heads != 0 ||
               m.head_width() % 2 == 0;
      },
      key::model.hidden, " and ", key::model.heads,
      [&] {
        return format(" make heads of width {}, and rotary positions need an even width",
                      m.head_width());
      },
      [&] {
        return advise({{key::model.hidden, multiples_from(m.hidden, 2 * m.heads)},
                       {key::model.heads, divisors_up_to(m.hidden, m.heads)}});
      });
  rule({key::model.architecture, key::model.kv_heads, key::model.heads},
       m.row().grouped || m.kv_heads == m.heads, key::model.architecture,
       " has no grouped attention, but ", key::model.kv_heads, " differs from ",
       key::model.heads, ": write model.kv_heads = 0");
  rule(
      {key::model.head_width, key::model.architecture},
      [&] { return !rotary || m.row().latent || m.own_head_width % 2 == 0; },
      key::model.head_width, " is odd, and rotary positions need an even width",
      [&] {
        return advise({{key::model.head_width, multiples_from(m.own_head_width, 2)}});
      });
  meaningless(key::model.head_width, key::model.architecture, !rotary,
              ", whose heads share out model.hidden: remove it");
}

void ModelRules::window_rules() {
  const auto& m = config_.model;
  const auto is_known = [](const std::string& type) {
    return type == model::full_attention || type == model::sliding_attention ||
           type == model::linear_attention;
  };
  meaningless(key::model.layer_types, key::model.window, m.window == 0 && !m.has_linear(),
              ": remove it, or write how many positions the layers with a window see");
  rule(
      {key::model.layer_types, key::model.layers},
      m.layer_types.empty() || m.layer_types.size() == static_cast<std::size_t>(m.layers),
      key::model.layer_types, " does not have as many words as there are layers, ",
      key::model.layers, ": write one for each layer");
  rule({key::model.layer_types},
       std::all_of(m.layer_types.begin(), m.layer_types.end(), is_known),
       key::model.layer_types,
       " has another word than \"full_attention\", \"sliding_attention\" and "
       "\"linear_attention\"");
  const auto has = [&](std::string_view word) {
    return std::find(m.layer_types.begin(), m.layer_types.end(), word) !=
           m.layer_types.end();
  };
  rule({key::model.layer_types, key::model.architecture},
       m.has_linear() || !has(model::linear_attention), key::model.layer_types,
       " has layers with linear attention, which ", key::model.architecture,
       " has not: write \"full_attention\" or \"sliding_attention\" for them");
  rule({key::model.layer_types, key::model.window},
       !m.has_linear() || m.window > 0 || !has(model::sliding_attention),
       key::model.layer_types, " has layers with a window, but ", key::model.window,
       ": write how many positions they see");
}

// Layers with linear attention, whose heads are shared by tensor ranks, and by context
// ranks while they go through whole sequences.
void ModelRules::linear_rules() {
  const auto& m = config_.model;
  const auto& linear = m.attention.linear;
  const bool has = m.has_linear();
  for (const io::DeckKey& each :
       {KeyRef(key::linear.key_heads), KeyRef(key::linear.value_heads),
        KeyRef(key::linear.key_width), KeyRef(key::linear.value_width),
        KeyRef(key::linear.taps)})
    meaningless(each, key::model.architecture, !has,
                ", which has no linear attention: remove it");
  rule({key::linear.key_heads, key::linear.value_heads, key::model.architecture},
       !has || (linear.key_heads > 0 && linear.value_heads > 0), key::model.architecture,
       " with ", key::linear.key_heads, " and ", key::linear.value_heads,
       ": write how many heads layers with linear attention have");
  if (!has || linear.key_heads == 0 || linear.value_heads == 0) return;
  divides({key::linear.key_heads, linear.key_heads},
          {key::linear.value_heads, linear.value_heads}, Mend::part);
  divides({key::parallel.tensor, config_.parallel.mesh.tensor},
          {key::linear.key_heads, linear.key_heads});
  const std::int64_t tensor = config_.parallel.mesh.tensor,
                     context = config_.parallel.mesh.context;
  rule({key::linear.key_heads, key::parallel.tensor, key::parallel.context},
       linear.key_heads % tensor != 0 || linear.key_heads / tensor % context == 0,
       key::linear.key_heads, " / ", key::parallel.tensor, " must be divisible by ",
       key::parallel.context, ", whose ranks share the heads of linear attention", [&] {
         return advise({{key::parallel.context,
                         divisors_up_to(linear.key_heads / tensor, context)}});
       });
  rule({key::precision.compute, key::model.architecture}, !config_.precision.recipe.fp8(),
       key::model.architecture, " with ", key::precision.compute,
       ": linear attention has no products in FP8 yet; write ",
       [&] { return bf16_instead(); });
}

void ModelRules::latent_rules() {
  const auto& m = config_.model;
  const auto& latent = m.attention.latent;
  const bool has_latent = m.row().latent;
  for (const io::DeckKey& each :
       {KeyRef(key::latent.width), KeyRef(key::latent.query_width),
        KeyRef(key::latent.value_width), KeyRef(key::latent.score_factor),
        KeyRef(key::latent.neighbours)})
    meaningless(each, key::model.architecture, !has_latent,
                ", which has no latent attention: remove it");
  rule({key::latent.width, key::model.architecture}, !has_latent || latent.width > 0,
       key::model.architecture, " with ", key::latent.width,
       ": write the width of the vector that keys and values are made of");
  rule({key::rope.width, key::model.head_width, key::model.architecture},
       !has_latent || (m.rope_width > 0 && m.rope_width < m.head_width()),
       key::rope.width, " with ", key::model.head_width,
       ": write how many of a head's numbers turn, fewer than all");
  const Recipe& recipe = config_.precision.recipe;
  const bool mx = recipe[TensorClass::forward_operand].scaling == Scaling::mx;
  const std::int64_t multiple = mx ? mx_block : 16;
  rule(
      {key::latent.width, key::latent.query_width, key::latent.value_width,
       key::rope.width, key::model.head_width, key::model.heads, key::parallel.tensor},
      [&] {
        return !has_latent || !recipe.fp8() ||
               latent_fits(m, config_.parallel.mesh.tensor, multiple);
      },
      key::latent.width, ", ", key::latent.query_width, ", ", key::latent.value_width,
      ", ", key::model.head_width, " and ", key::rope.width,
      [&] {
        return format(
            " make widths on a rank that are no multiples of {}, which they must be with "
            "precision.compute = \"fp8\": write {}",
            multiple,
            config_.start_from.empty() ? format("multiples of {}", multiple)
                                       : bf16_instead());
      });
  rule({key::latent.value_width, key::model.head_width},
       !has_latent || m.value_width() <= m.head_width(), key::latent.value_width,
       " is more than ", key::model.head_width, ": values are no wider than keys");
}

void ModelRules::model_rules() {
  const auto& m = config_.model;
  const bool rotary = m.row().positions == model::Positions::rotary;
  head_rules();
  rope_rules();
  window_rules();
  latent_rules();
  linear_rules();
  meaningless(key::model.rope_theta, key::model.architecture, !rotary,
              ", whose positions are learned: remove it");
  rule({key::position.positions, key::model.sequence},
       m.own_positions == 0 || m.sequence <= m.own_positions, key::position.positions,
       " is less than ", key::model.sequence, [&] {
         return advise({{key::model.sequence, {std::to_string(m.own_positions)}},
                        {key::position.positions, {"0"}}});
       });
  meaningless(key::model.attention_bias, key::model.architecture,
              !m.row().free_qkv_bias && !m.row().free_output_bias, ": remove it");
  meaningless(key::model_attention.own_bias, key::model.architecture,
              !m.row().free_own_bias, ": remove it");
  rule({key::model.activation, key::model.architecture},
       !m.gated() || !m.row().names.gate.empty(), key::model.activation,
       " has a gate, and ", key::model.architecture,
       " has no tensor for it: write model.activation = \"auto\"");
  for (const io::DeckKey& each :
       {KeyRef(key::model.query_scalar), KeyRef(key::model.attention_cap),
        KeyRef(key::model_attention.scale_by_layer)})
    meaningless(each, key::model.architecture, m.row().latent,
                ", whose latent attention has a scale of its own: remove it");
  rule({key::model.attention_cap, key::attention.library},
       m.attention.cap == 0 || config_.run.attention != AttentionChoice::cudnn,
       key::attention.library, " has no caps here, but ", key::model.attention_cap,
       ": write attention.library = \"auto\"");
  rule({key::dropout.attention, key::attention.library},
       m.attention.dropout == 0 || config_.run.attention != AttentionChoice::cudnn,
       key::attention.library, " drops no probabilities here, but ",
       key::dropout.attention, ": write attention.library = \"auto\"");
  meaningless(key::model.qk_norm, key::model.architecture, !m.row().free_qk_norm,
              ": remove it");
  meaningless(key::model.parallel_residual, key::model.architecture,
              !m.row().parallel_halves, ": remove it");
  meaningless(key::model.mlp_bias, key::model.activation, !m.gated(), ": remove it");
  rule({key::embedding.pad_token, key::model.vocabulary},
       m.residual.pad_token < m.vocabulary || m.vocabulary == 0, key::embedding.pad_token,
       " lies outside ", Resolved{key::model.vocabulary, m.vocabulary},
       ": write a token of the vocabulary, or -1 for none");
  rule({key::model.vocabulary, key::data.source},
       m.vocabulary > 0 || config_.data.kind == io::SourceKind::bytes,
       "model.vocabulary must be given with ", key::data.source,
       ": only bytes have a default, 257");
  rule({key::model.vocabulary, key::data.source},
       config_.data.kind != io::SourceKind::bytes || m.vocabulary > io::end_of_text,
       key::model.vocabulary, " is too small for ", key::data.source,
       ", which has 256 bytes and an end of text", [&] {
         return advise({{key::model.vocabulary,
                         {std::to_string(io::end_of_text + 1),
                          std::to_string(config_.parallel.mesh.tensor)}}});
       });
}

void ExpertRules::expert_rules() {
  const auto& m = config_.model;
  const auto& moe = m.moe;
  const bool is_moe = m.has_experts();
  rule({key::model.architecture, key::moe.experts}, is_moe == (moe.experts > 0),
       key::model.architecture, " with ", key::moe.experts, [&] {
         return is_moe ? std::string(": write how many experts a layer has")
                       : format(": only {} have experts; write model.moe.experts = 0",
                                model::architectures_with_experts());
       });
  rule({key::moe.experts, key::moe.top_k},
       !is_moe || moe.experts == 0 || moe.top_k <= moe.experts, key::moe.top_k,
       " is more than ", key::moe.experts, [&] {
         return advise({{key::moe.top_k, {std::to_string(moe.experts)}},
                        {key::moe.experts, {std::to_string(moe.top_k)}}});
       });
  expert_key_rules();
  expert_group_rules();
  rule({key::moe.bias_update_rate, key::moe.choice_bias},
       moe.bias_update_rate == 0 || moe.choice_bias, key::moe.bias_update_rate,
       " moves a bias that ", key::moe.choice_bias,
       " leaves out: write model.moe.choice_bias = true, or "
       "model.moe.bias_update_rate = 0");
  rule({key::moe.dense_layers, key::model.layers}, moe.dense_layers <= m.layers,
       key::moe.dense_layers, " is more than ", key::model.layers,
       [&] { return format(": write model.moe.dense_layers = {}", m.layers); });
  rule({key::moe.capacity_factor, key::parallel.context},
       moe.capacity_factor == 0 || config_.parallel.mesh.context == 1,
       key::moe.capacity_factor, " with ", key::parallel.context,
       ": which tokens of a sequence come first is not known to a rank that "
       "holds a part of it; write model.moe.capacity_factor = 0");
  expert_mesh_rules();
}

void ExpertRules::expert_group_rules() {
  const auto& moe = config_.model.moe;
  const auto& groups = moe.groups;
  divides({key::moe.groups, groups.groups}, {key::moe.experts, moe.experts}, Mend::part);
  rule({key::moe.groups_used, key::moe.groups},
       groups.groups == 1 || groups.used <= groups.groups, key::moe.groups_used,
       " is more than ", key::moe.groups,
       [&] { return format(": write model.moe.groups_used = {}", groups.groups); });
  rule({key::moe.top_k, key::moe.groups_used, key::moe.groups},
       groups.groups == 1 || moe.top_k <= groups.used * (moe.experts / groups.groups),
       key::moe.top_k, " is more than the experts of ", key::moe.groups_used, " of ",
       key::moe.groups, ": write a smaller top_k, or more groups_used");
  meaningless(key::moe.groups_used, key::moe.groups, groups.groups == 1, ": remove it");
  meaningless(key::moe.group_counts, key::moe.groups, groups.groups == 1, ": remove it");
}

// Keys that an architecture does not have must keep their defaults.
void ExpertRules::expert_key_rules() {
  const bool is_moe = config_.model.has_experts();
  const model::ArchitectureRow& row = config_.model.row();
  const auto of_moe = [&](const io::DeckKey& key) {
    meaningless(key, key::model.architecture, !is_moe, ": remove it");
  };
  const auto of_free = [&](const io::DeckKey& key) {
    meaningless(key, key::model.architecture, !row.free_experts, ": remove it");
  };
  const auto of_free_router = [&](const io::DeckKey& key) {
    meaningless(key, key::model.architecture, !row.free_router, ": remove it");
  };
  of_moe(key::moe.top_k);
  const auto of_shared = [&](const io::DeckKey& key) {
    meaningless(key, key::model.architecture, row.names.experts.shared.empty(),
                ": remove it");
  };
  of_shared(key::moe.shared_experts);
  of_shared(key::moe.shared_feed_forward);
  of_moe(key::moe.expert_feed_forward);
  of_free(key::moe.dense_layers);
  of_free(key::moe.mlp_layers);
  of_free(key::moe.every);
  of_free_router(key::moe.groups);
  of_free_router(key::moe.router);
  of_free(key::moe.normalise);
  of_free_router(key::moe.scaling);
  of_moe(key::moe.capacity_factor);
  of_moe(key::moe.aux_loss);
  of_moe(key::moe.z_loss);
  of_free_router(key::moe.choice_bias);
  of_free_router(key::moe.bias_update_rate);
}

}  // namespace trireme::config
