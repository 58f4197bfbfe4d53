// What the fuzzing targets share: a folder in memory, and what counts as a finding.
// SPDX-License-Identifier: Apache-2.0
//
// A target is one file <name>_fuzz.cpp that defines LLVMFuzzerTestOneInput, and a folder
// corpus/<name> of small inputs. libFuzzer's runtime or replay.cpp calls it. A finding is
// what ends the process: a signal, a sanitizer's report, an exception that is no refusal,
// too much memory or time, or finding().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trireme::fuzz {

// Says what is wrong and aborts.
[[noreturn]] void finding(const std::string& text);

// A folder of this process, in memory where the system has /dev/shm; removed at exit.
const std::string& folder();
// Writes folder()/name as a whole and gives its path.
std::string put(const std::string& name, std::string_view content);

// Makes folder()/name.
void make_directory(const std::string& name);

// Before, and from, the first line that is `mark` alone: inputs of two parts.
std::pair<std::string, std::string> split_at(std::string_view text,
                                             std::string_view mark);

// Whether hostile content may be refused with this error; otherwise it is a finding, as
// when the program takes content for a bug of its own.
void require_refusal(const Error& error);

// What work() gives, or nothing where it refuses the input. An error for content has a
// message, which is not longer than a page.
template <class Work>
auto unless_refused(const Work& work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const Error& error) {
    require_refusal(error);
    return {};
  }
}

// A finding unless two texts are equal.
void require_equal(const std::string& what, const std::string& a, const std::string& b);

}  // namespace trireme::fuzz
