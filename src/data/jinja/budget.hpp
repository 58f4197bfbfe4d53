// Budget: bounds what the rendering of a template may take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"

namespace trireme::data::jinja {

struct Limits {
  std::int64_t steps = 20'000'000;           // expressions and statements
  std::size_t bytes = std::size_t{1} << 29;  // of all texts that are made on the way
  int depth = 250;                           // of calls and nested expressions
};

// Every call throws Error(bad_content) when a limit is passed: an endless or exploding
// template ends in a message.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step() {
    require(++steps_ <= limits_.steps, Status::bad_content,
            "it takes more than {} steps; does a loop not end?", limits_.steps);
  }
  // Of a list that is made or gone through.
  void elements(std::size_t count) {
    constexpr std::size_t element_bytes = 64;
    make(element_bytes * std::min(count, limits_.bytes));
    steps_ += static_cast<std::int64_t>(count);
    step();
  }
  // Of what goes through all of a value.
  void work(std::size_t steps) {
    steps_ += static_cast<std::int64_t>(steps);
    step();
  }
  // Before that many bytes are made.
  void make(std::size_t bytes) {
    require(bytes <= limits_.bytes - bytes_, Status::bad_content,
            "it makes more than {} of text",
            human_bytes(static_cast<double>(limits_.bytes)));
    bytes_ += bytes;
  }
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      require(budget.depth_ < budget.limits_.depth, Status::bad_content,
              "calls or expressions are nested more than {} deep", budget.limits_.depth);
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  std::int64_t steps_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace trireme::data::jinja
