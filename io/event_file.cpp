// TensorBoard event files: scalars, texts and a run's settings in TFRecord frames.
// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/system_reason.hpp"
#include "base/text.hpp"
#include "io/files.hpp"
#include "io/run_lock.hpp"
#include "io/wire_format.hpp"

namespace trireme::io {
namespace {

// event.proto: Event {1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log}.
std::string event_at(double wall_time) { return wire::real64(1, wall_time); }

std::string event_at(double wall_time, std::int64_t step) {
  return event_at(wall_time) + wire::whole(2, static_cast<std::uint64_t>(step));
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

constexpr std::string_view prefix = "events.out.tfevents.";
constexpr std::int64_t most_seconds = 1'000'000'000'000;

// Seconds for the next file's name: now, or later where an earlier start of this second
// (or one on a host whose clock is ahead) has left a file. TensorBoard reads files in the
// order of their names.
std::int64_t next_seconds(const Directory& folder) {
  auto seconds = static_cast<std::int64_t>(io::wall_time());
  for (const auto& name : folder.names()) {
    if (!name.starts_with(prefix)) continue;
    const auto digits = std::string_view(name).substr(prefix.size());
    const auto theirs = parse_number<std::int64_t>(digits.substr(0, digits.find('.')));
    // A name of a far future is no clock's, and would leave no later one.
    if (theirs && *theirs < most_seconds) seconds = std::max(seconds, *theirs + 1);
  }
  return seconds;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// summary.proto: SummaryMetadata {1 plugin_data {1 plugin_name, 2 content}}, in a Summary
// of one Value {1 tag, 9 metadata}.
std::string plugin_summary(const std::string& tag, const std::string& plugin,
                           const std::string& content) {
  const std::string data = wire::bytes(1, plugin) + wire::bytes(2, content);
  return wire::bytes(1, wire::bytes(1, tag) + wire::bytes(9, wire::bytes(1, data)));
}

// struct.proto: Value {2 number_value, 3 string_value, 4 bool_value}.
std::string setting_value(const DeckSetting& setting) {
  const TomlValue& value = setting.value;
  switch (value.kind) {
    case TomlValue::Kind::boolean: return wire::whole(4, value.flag ? 1 : 0);
    case TomlValue::Kind::integer:
      return wire::real64(2, static_cast<double>(value.whole));
    case TomlValue::Kind::real: return wire::real64(2, value.number);
    default: return wire::bytes(3, valid_utf8(setting.text()));
  }
}

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
  const std::string length = wire::little_endian(std::uint64_t{data.size()});
  return length + wire::little_endian(masked_crc32c(length)) + std::string(data) +
         wire::little_endian(masked_crc32c(data));
}

std::string version_event(double wall_time) {
  return event_at(wall_time) + wire::bytes(3, "brain.Event:2");
}

// summary.proto: Summary {repeated 1 Value {1 tag, 2 simple_value}}.
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const Scalar> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary +=
        wire::bytes(1, wire::bytes(1, tag) + wire::real32(2, static_cast<float>(value)));
  }
  return event_at(wall_time, step) + wire::bytes(5, summary);
}

// summary.proto: Value {1 tag, 8 tensor, 9 metadata}, SummaryMetadata {1 plugin_data
// {1 plugin_name}, 4 data_class}; TensorProto {1 dtype, 2 tensor_shape {2 dim {1 size}},
// 8 string_val}, with DT_STRING = 7, DATA_CLASS_TENSOR = 2.
std::string text_event(double wall_time, std::int64_t step, const std::string& tag,
                       const std::string& text) {
  const std::string tensor = wire::whole(1, 7) +
                             wire::bytes(2, wire::bytes(2, wire::whole(1, 1))) +
                             wire::bytes(8, text);
  const std::string metadata = wire::bytes(1, wire::bytes(1, "text")) + wire::whole(4, 2);
  const std::string value =
      wire::bytes(1, tag) + wire::bytes(8, tensor) + wire::bytes(9, metadata);
  return event_at(wall_time, step) + wire::bytes(5, wire::bytes(1, value));
}

// event.proto: SessionLog {1 status}, START = 1.
std::string session_start_event(double wall_time, std::int64_t step) {
  return event_at(wall_time, step) + wire::bytes(7, wire::whole(1, 1));
}

// plugin_data.proto of TensorBoard's hparams: HParamsPluginData {3 session_start_info,
// 4 session_end_info}, SessionStartInfo {map 1 hparams, 5 start_time_secs}.
std::string settings_event(double wall_time, const std::vector<DeckSetting>& settings) {
  std::string start;
  for (const DeckSetting& setting : settings)
    start += wire::bytes(
        1, wire::bytes(1, setting.key) + wire::bytes(2, setting_value(setting)));
  start += wire::real64(5, wall_time);
  return event_at(wall_time) +
         wire::bytes(5, plugin_summary("_hparams_/session_start_info", "hparams",
                                       wire::bytes(3, start)));
}

// SessionEndInfo {1 status, 2 end_time_secs}: success 1, failure 2, running 3.
std::string settings_end_event(double wall_time, RunEnd end) {
  const unsigned status = end == RunEnd::done ? 1 : end == RunEnd::failed ? 2 : 3;
  const std::string message = wire::whole(1, status) + wire::real64(2, wall_time);
  return event_at(wall_time) +
         wire::bytes(5, plugin_summary("_hparams_/session_end_info", "hparams",
                                       wire::bytes(4, message)));
}

EventFile::EventFile(const TrackedRun& run) {
  make_directories(run.directory);
  Directory folder(run.directory);
  if (folder.has("tensorboard")) folder = folder.open("tensorboard");
  const ProcessName self = this_process();
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld",
                static_cast<long long>(next_seconds(folder)));
  const std::string name =
      format("{}{}.{}.{}.0", prefix, seconds.data(), self.host, self.pid);
  path_ = folder.path_of(name);
  file_ = folder.create(name);
  append(version_event(io::wall_time()));
  append(session_start_event(io::wall_time(), run.resumed + 1));
  if (!run.settings.empty()) append(settings_event(io::wall_time(), run.settings));
  if (!run.deck.empty())  // indented, so that Markdown shows it as it is
    write_text(run.resumed, "deck", "    " + replaced(run.deck, "\n", "\n    "));
}

void EventFile::write(const Record& record) {
  const StepScalars all = scalars_of(record);
  append(scalars_event(io::wall_time(), all.step, all.scalars));
}

void EventFile::write_text(std::int64_t step, const std::string& tag,
                           const std::string& text) {
  append(text_event(io::wall_time(), step, tag, text));
}

void EventFile::finish(RunEnd end) { append(settings_end_event(io::wall_time(), end)); }

void EventFile::append(const std::string& event) {
  const std::string text = tf_record(event);
  if (!write_all(file_.get(), text))
    fail(Status::io, "{}: write failed: {}", path_, system_reason(errno));
}

}  // namespace trireme::io
