// Which choice a model takes, and how often it is the right one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/choice_file.hpp"

namespace trireme::app {

// What the log-likelihood of a choice is divided by before the highest is taken:
// nothing, the characters of its text, or its bytes.
inline constexpr std::array<std::string_view, 3> choice_metrics = {"acc", "acc_norm",
                                                                   "acc_bytes"};
using Taken = std::array<std::size_t, choice_metrics.size()>;

// The number of the choice that each metric takes, the first of equal ones.
// log_likelihoods: of the choices.
Taken taken_choices(std::span<const double> log_likelihoods,
                    const std::vector<std::string>& choices);

// "0.4800 +- 0.0714": a share p of n, and its standard error sqrt(p (1 - p) / (n - 1)),
// which one question has none of.
std::string share_text(std::size_t right, std::size_t questions);

// Of every question, in order: which it takes.
std::vector<Taken> take_all(const ChoiceFile& file, const std::vector<double>& scores);
// A line of JSON for each question.
std::string verdict_lines(const ChoiceFile& file, const std::vector<double>& scores,
                          const std::vector<Taken>& taken);

}  // namespace trireme::app
