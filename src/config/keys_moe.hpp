// Keys of the deck: experts in place of feed-forwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of MoE layers.
template <auto... members>
inline constexpr auto of_moe =
    sets<&RunConfig::model, &model::ModelConfig::moe, members...>;

struct MoeKeys : Section {
  constexpr MoeKeys() : Section("model.moe") {}

  Integer experts{
      *this,
      "experts",
      "",
      "0",
      within(0, 1 << 20),
      "Experts of a layer; needed by architectures that have them, 0 for others.",
      of_moe<&model::MoeSettings::experts>};
  Integer top_k{*this,
                "top_k",
                "",
                "2",
                within(1, 1 << 20),
                "Experts that a token uses.",
                of_moe<&model::MoeSettings::top_k>};
  Integer shared_experts{*this,
                         "shared_experts",
                         "",
                         "0",
                         within(0, 1 << 16),
                         "Experts that every token uses besides; deepseek_moe, "
                         "deepseek_v2, deepseek_v3, glm4_moe, qwen2_moe and qwen3_5_moe "
                         "only.",
                         of_moe<&model::MoeSettings::shared_experts>};
  Integer shared_feed_forward{
      *this,
      "shared_feed_forward",
      "",
      "0",
      within(0, 1 << 28),
      "Width inside the shared expert; 0: shared_experts times that of one expert.",
      of_moe<&model::MoeSettings::shared_feed_forward>};
  Integer expert_feed_forward{*this,
                              "expert_feed_forward",
                              "",
                              "0",
                              within(0, 1 << 28),
                              "Width inside one expert; 0: model.feed_forward.",
                              of_moe<&model::MoeSettings::expert_feed_forward>};
  Integer dense_layers{
      *this,
      "dense_layers",
      "",
      "0",
      within(0, 1e5),
      "First layers that have an ordinary MLP; not of mixtral and gpt_oss.",
      of_moe<&model::MoeSettings::dense_layers>};
  Integers mlp_layers{*this,
                      "mlp_layers",
                      "",
                      "[]",
                      within(0, 1e5),
                      "Numbers of further layers that have one, from 0 on.",
                      of_moe<&model::MoeSettings::mlp_layers>};
  Integer every{*this,
                "every",
                "",
                "1",
                within(1, 1e5),
                "Experts are in every so many-th layer, the others have an ordinary MLP.",
                of_moe<&model::MoeSettings::every>};
  Choice<kernels::RouterScore> router{
      *this,
      "router",
      "\"softmax\"",
      {{"softmax", kernels::RouterScore::softmax},
       {"sigmoid", kernels::RouterScore::sigmoid}},
      "How a router's logits become scores; sigmoid for deepseek_moe, deepseek_v2, "
      "deepseek_v3 and glm4_moe only.",
      of_moe<&model::MoeSettings::router>};
  Integer groups{*this,
                 "groups",
                 "",
                 "1",
                 within(1, kernels::most_expert_groups),
                 "Groups of equal size that experts are in (DeepSeek).",
                 of_moe<&model::MoeSettings::groups, &kernels::ExpertGroups::groups>};
  Integer groups_used{*this,
                      "groups_used",
                      "",
                      "1",
                      within(1, kernels::most_expert_groups),
                      "Groups whose experts a token may use: those of largest scores.",
                      of_moe<&model::MoeSettings::groups, &kernels::ExpertGroups::used>};
  Integer group_counts{
      *this,
      "group_counts",
      "",
      "2",
      within(1, 1 << 20),
      "How many of its largest scores a group is judged by: 2 in DeepSeek-V3, 1 in V2.",
      of_moe<&model::MoeSettings::groups, &kernels::ExpertGroups::counted>};
  Boolean normalise{*this, "normalise", "true",
                    "Make the weights of a token's experts sum to model.moe.scaling.",
                    of_moe<&model::MoeSettings::normalise>};
  Real scaling{*this,
               "scaling",
               "",
               "1.0",
               above(0, 1e6),
               "Factor of the weights of a token's experts.",
               of_moe<&model::MoeSettings::scaling>};
  Real capacity_factor{
      *this,
      "capacity_factor",
      "",
      "0.0",
      within(0, 1e6),
      "An expert takes at most this times its even share of a sequence's tokens, "
      "later ones pass it by; 0: it takes all.",
      of_moe<&model::MoeSettings::capacity_factor>};
  Real aux_loss{*this,
                "aux_loss",
                "",
                "0.0",
                within(0, 1e3),
                "Weight of the balance loss of each sequence.",
                of_moe<&model::MoeSettings::aux_loss>};
  Real z_loss{*this,
              "z_loss",
              "",
              "0.0",
              within(0, 1e3),
              "Weight of the square of the routers' log-sum-exp.",
              of_moe<&model::MoeSettings::z_loss>};
  Boolean choice_bias{
      *this, "choice_bias", "false",
      "Add a bias to the scores when experts are chosen; deepseek_moe, deepseek_v2, "
      "deepseek_v3 and glm4_moe only.",
      of_moe<&model::MoeSettings::choice_bias>};
  Real bias_update_rate{*this,
                        "bias_update_rate",
                        "",
                        "0.0",
                        within(0, 1e3),
                        "How much that bias moves towards an even load after each step.",
                        of_moe<&model::MoeSettings::bias_update_rate>};
};

namespace key {
inline constexpr MoeKeys moe;
}  // namespace key

}  // namespace trireme::config
