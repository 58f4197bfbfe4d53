// TensorBoard event files: scalars in TFRecord frames, written natively.
// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"
#include "io/run_lock.hpp"

namespace trireme::io {
namespace {

// Protocol buffers: a field is its number and wire type as one varint, then the value.
enum class Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}

std::string field(unsigned number, Wire wire, const std::string& value) {
  return varint(number << 3 | static_cast<unsigned>(wire)) + value;
}

std::string bytes_field(unsigned number, const std::string& value) {
  return field(number, Wire::bytes, varint(value.size()) + value);
}

// event.proto: Event {1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log}.
std::string event_at(double wall_time) {
  return field(1, Wire::fixed64, little_endian(std::bit_cast<std::uint64_t>(wall_time)));
}

std::string event_at(double wall_time, std::int64_t step) {
  return event_at(wall_time) +
         field(2, Wire::varint, varint(static_cast<std::uint64_t>(step)));
}

constexpr auto crc_table = [] {
  constexpr std::uint32_t polynomial = 0x82F63B78;  // Castagnoli's, reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) ? polynomial : 0);
    table[i] = value;
  }
  return table;
}();

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

constexpr std::string_view prefix = "events.out.tfevents.";
constexpr std::int64_t most_seconds = 1'000'000'000'000;

// Seconds for the next file's name: now, or later where an earlier start of this second
// (or one on a host whose clock is ahead) has left a file. TensorBoard reads files in the
// order of their names.
std::int64_t next_seconds(const Directory& folder) {
  auto seconds = static_cast<std::int64_t>(now());
  for (const auto& name : folder.names()) {
    if (!name.starts_with(prefix)) continue;
    const auto digits = std::string_view(name).substr(prefix.size());
    const auto theirs = parse_number<std::int64_t>(digits.substr(0, digits.find('.')));
    // A name of a far future is no clock's, and would leave no later one.
    if (theirs && *theirs < most_seconds) seconds = std::max(seconds, *theirs + 1);
  }
  return seconds;
}

struct Group {
  std::string_view key, tag;
};
constexpr std::array groups = {
    Group{"loss", "train/loss"},
    Group{"grad_norm", "train/grad_norm"},
    Group{"learning_rate", "train/learning_rate"},
    Group{"loss_scale", "train/loss_scale"},
    Group{"tokens", "train/tokens"},
    Group{"validation_loss", "validation/loss"},
    Group{"validation_perplexity", "validation/perplexity"},
    Group{"tokens_per_second", "speed/tokens_per_second"},
    Group{"mfu", "speed/mfu"},
    Group{"mfu_causal", "speed/mfu_causal"},
    Group{"model_tflops", "speed/model_tflops"},
};

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes)
    crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(data) +
         little_endian(masked_crc32c(data));
}

std::string version_event(double wall_time) {
  return event_at(wall_time) + bytes_field(3, "brain.Event:2");
}

// summary.proto: Summary {repeated 1 Value {1 tag, 2 simple_value}}.
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    summary += bytes_field(
        1, bytes_field(1, tag) + field(2, Wire::fixed32, little_endian(bits)));
  }
  return event_at(wall_time, step) + bytes_field(5, summary);
}

// summary.proto: Value {1 tag, 8 tensor, 9 metadata}, SummaryMetadata {1 plugin_data
// {1 plugin_name}, 4 data_class}; TensorProto {1 dtype, 2 tensor_shape {2 dim {1 size}},
// 8 string_val}, with DT_STRING = 7, DATA_CLASS_TENSOR = 2.
std::string text_event(double wall_time, std::int64_t step, const std::string& tag,
                       const std::string& text) {
  const auto number = [](unsigned name, std::uint64_t value) {
    return field(name, Wire::varint, varint(value));
  };
  const std::string tensor =
      number(1, 7) + bytes_field(2, bytes_field(2, number(1, 1))) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text")) + number(4, 2);
  const std::string value =
      bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata);
  return event_at(wall_time, step) + bytes_field(5, bytes_field(1, value));
}

// event.proto: SessionLog {1 status}, START = 1.
std::string session_start_event(double wall_time, std::int64_t step) {
  return event_at(wall_time, step) + bytes_field(7, field(1, Wire::varint, varint(1)));
}

std::string tag_of(const std::string& key) {
  for (const auto& group : groups)
    if (group.key == key) return std::string(group.tag);
  if (key.ends_with("_bytes")) return "memory/" + key;
  if (key.ends_with("_seconds")) return "time/" + key;
  return "more/" + key;
}

EventFile::EventFile(const std::string& directory, std::int64_t resumed) {
  make_directories(parent_of(directory));
  const Directory folder = Directory::make_own(directory);
  const ProcessName self = this_process();
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld",
                static_cast<long long>(next_seconds(folder)));
  const std::string name =
      format("{}{}.{}.{}.0", prefix, seconds.data(), self.host, self.pid);
  path_ = folder.path_of(name);
  file_ = folder.create(name);
  append(version_event(now()));
  append(session_start_event(now(), resumed + 1));
}

void EventFile::write(const Record& record) {
  std::int64_t step = 0;
  std::vector<Scalar> scalars;
  for (const auto& [key, value] : record.numbers()) {
    if (key == "step")
      step = static_cast<std::int64_t>(value);
    else
      scalars.emplace_back(tag_of(key), value);
  }
  append(scalars_event(now(), step, scalars));
}

void EventFile::write_text(std::int64_t step, const std::string& tag,
                           const std::string& text) {
  append(text_event(now(), step, tag, text));
}

void EventFile::append(const std::string& event) {
  const std::string text = tf_record(event);
  if (!write_all(file_.get(), text))
    fail(Status::io, "{}: write failed: {}", path_, system_reason(errno));
}

}  // namespace trireme::io
