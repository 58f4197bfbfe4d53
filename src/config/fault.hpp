// Faults that debug.fault injects, for tests: their kinds, and their written form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::config {

enum class FaultKind : std::uint8_t {
  exit,  // before the step: the rank leaves without a word
  throw_error,
  kill,  // SIGKILL
  hang,
  stop,           // SIGSTOP
  slow_copy,      // from here on a checkpoint's copy begins only after a while
  nan,            // in a weight
  nan_loss,       // in what the step computed, however often it does
  nan_gradient,   // the same
  spike,          // the same: a loss a thousand times as large
  slow,           // from here on forwards begin only after a while
  hang_disk,      // from here on a file of a checkpoint is never written to its end
  flip_sign,      // a bit of a weight, before the step
  flip_exponent,  // the same
  flip_mantissa,  // the same
  flip_moment,    // a bit of a first moment
  flip_gradient,  // a bit of what the rank computed, but not if it computes it again
  kill_reference  // SIGKILL, before this round of asking the reference of DPO
};

// Whether a kind stops the process itself, for which there need be no model yet.
constexpr bool stops_process(FaultKind kind) {
  switch (kind) {
    case FaultKind::exit:
    case FaultKind::throw_error:
    case FaultKind::kill:
    case FaultKind::hang:
    case FaultKind::stop: return true;
    default: return false;
  }
}

// Every kind and its word, in the order in which the deck's reference lists them.
struct FaultWord {
  std::string_view word;
  FaultKind kind;
};
inline constexpr std::array fault_words = {
    FaultWord{"exit", FaultKind::exit},
    FaultWord{"throw", FaultKind::throw_error},
    FaultWord{"kill", FaultKind::kill},
    FaultWord{"hang", FaultKind::hang},
    FaultWord{"stop", FaultKind::stop},
    FaultWord{"slow_copy", FaultKind::slow_copy},
    FaultWord{"nan", FaultKind::nan},
    FaultWord{"nan_loss", FaultKind::nan_loss},
    FaultWord{"nan_gradient", FaultKind::nan_gradient},
    FaultWord{"spike", FaultKind::spike},
    FaultWord{"slow", FaultKind::slow},
    FaultWord{"hang_disk", FaultKind::hang_disk},
    FaultWord{"flip_sign", FaultKind::flip_sign},
    FaultWord{"flip_exponent", FaultKind::flip_exponent},
    FaultWord{"flip_mantissa", FaultKind::flip_mantissa},
    FaultWord{"flip_moment", FaultKind::flip_moment},
    FaultWord{"flip_gradient", FaultKind::flip_gradient},
    FaultWord{"kill_reference", FaultKind::kill_reference},
};

struct Fault {
  FaultKind kind = FaultKind::exit;
  std::int64_t step = 0, rank = 0;  // steps count from 1, ranks from 0; step 0: the start
};

// "kind@step@rank"; nothing for any other text.
std::optional<Fault> parse_fault(std::string_view text);

std::string_view name_of(FaultKind kind);

// "exit, throw, ... or flip_moment".
std::string fault_kinds_text();

// What the deck's reference says of debug.fault.
struct FaultDoc {
  std::array<char, 256> letters{};
  std::size_t length = 0;
  constexpr FaultDoc() {
    add("A fault to inject, for tests: kind@step@rank; kind: ");
    for (const FaultWord& entry : fault_words) {
      if (&entry != &fault_words.front()) add(", ");
      add(entry.word);
    }
    add(".");
  }
  constexpr void add(std::string_view text) {
    for (const char letter : text) letters.at(length++) = letter;
  }
};
inline constexpr FaultDoc fault_doc_letters;
inline constexpr std::string_view fault_doc(fault_doc_letters.letters.data(),
                                            fault_doc_letters.length);

}  // namespace trireme::config
