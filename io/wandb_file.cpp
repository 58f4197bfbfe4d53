// WandbFile: records of a run in the log that Weights & Biases' offline mode writes.
// SPDX-License-Identifier: Apache-2.0
#include "io/wandb_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "base/version.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/run_directory.hpp"
#include "io/run_lock.hpp"
#include "io/wire_format.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t head_bytes = 7;  // of a fragment

constexpr auto crc_table = [] {
  constexpr std::uint32_t polynomial = 0xEDB88320;  // of IEEE 802.3, reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) ? polynomial : 0);
    table[i] = value;
  }
  return table;
}();

std::string json_value(const DeckSetting& setting) {
  switch (setting.value.kind) {
    case TomlValue::Kind::boolean: return setting.value.flag ? "true" : "false";
    case TomlValue::Kind::integer: return std::to_string(setting.value.whole);
    case TomlValue::Kind::real:
      return std::isfinite(setting.value.number) ? exact(setting.value.number) : "null";
    default: return json_text(setting.text(2000));
  }
}

// wandb_internal.proto: HistoryItem {2 nested_key, 16 value_json}; SummaryItem has the
// same fields.
std::string item(const std::string& key, const std::string& json) {
  return wire::bytes(1, wire::bytes(2, key) + wire::bytes(16, json));
}

std::string time_name(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &parts);
  return text.data();
}

// The first folder of that name that is not there yet.
Directory new_folder(const Directory& parent, const std::string& time,
                     const std::string& id) {
  for (int i = 0;; ++i) {
    const std::string name =
        format("offline-run-{}{}-{}", time, i == 0 ? "" : format("_{}", i), id);
    if (!parent.has(name)) return parent.make(name);
  }
}

}  // namespace

std::uint32_t fragment_checksum(unsigned char kind, std::string_view data) {
  std::uint32_t crc = 0xffffffff;
  const auto add = [&](unsigned char byte) {
    crc = (crc >> 8) ^ crc_table[(crc ^ byte) & 0xff];
  };
  add(kind);
  for (const char c : data) add(static_cast<unsigned char>(c));
  return ~crc;
}

std::string WandbLog::head() {
  const std::string text("\x3aW&B\xe1\xbe\0", 7);  // name, magic number, version 0
  at_ = text.size();
  return text;
}

std::string WandbLog::frame(std::string_view record) {
  std::string out;
  bool first = true;
  while (first || !record.empty()) {
    std::size_t room = block_bytes - at_ % block_bytes;
    if (room < head_bytes) {
      out.append(room, '\0');
      at_ += room;
      room = block_bytes;
    }
    const std::string_view part = record.substr(0, room - head_bytes);
    record.remove_prefix(part.size());
    const bool last = record.empty();
    const unsigned char kind = first ? (last ? 1 : 2) : (last ? 4 : 3);
    out += wire::little_endian(fragment_checksum(kind, part));
    out += wire::little_endian(static_cast<std::uint16_t>(part.size()));
    out += static_cast<char>(kind);
    out += part;
    at_ += head_bytes + part.size();
    first = false;
  }
  return out;
}

// Record {1 num, 2 history, 3 summary, 17 run, 18 exit, 21 header, 200 _info};
// RunRecord {1 run_id, 3 project, 4 config, 8 display_name, 13 host, 17 start_time}.
WandbFile::WandbFile(const TrackedRun& run)
    : id_(digest_of(absolute_path(run.directory)).substr(0, 8)), start_(wall_time()) {
  make_directories(run.store);
  const Directory store(run.store);
  const Directory folder = new_folder(store.make("wandb"), time_name(start_), id_);
  for (const char* name : {"files", "logs", "tmp"}) folder.make(name);
  const std::string name = "run-" + id_ + ".wandb";
  path_ = folder.path_of(name);
  file_ = folder.create(name);
  if (!write_all(file_.get(), log_.head()))
    fail(Status::io, "{}: write failed: {}", path_, system_reason(errno));
  append(21, wire::bytes(1, wire::bytes(1, format("trireme {}", build_info().version)) +
                                wire::bytes(2, "0.40.0")));
  std::string config;  // ConfigRecord {1 update {1 key, 16 value_json}}
  for (const DeckSetting& setting : run.settings)
    config += wire::bytes(
        1, wire::bytes(1, setting.key) + wire::bytes(16, json_value(setting)));
  const auto seconds = static_cast<std::int64_t>(start_);
  const auto rest = start_ - static_cast<double>(seconds);
  append(17,
         wire::bytes(1, id_) + wire::bytes(3, "trireme") + wire::bytes(4, config) +
             wire::bytes(8, run.name) + wire::bytes(13, this_process().host) +
             wire::whole(14, static_cast<std::uint64_t>(run.resumed)) +
             wire::bytes(17, wire::whole(1, static_cast<std::uint64_t>(seconds)) +
                                 wire::whole(2, static_cast<std::uint64_t>(rest * 1e9))));
}

void WandbFile::append(unsigned field, const std::string& message) {
  const std::string record = wire::whole(1, static_cast<std::uint64_t>(++records_)) +
                             wire::bytes(field, message) +
                             wire::bytes(200, wire::bytes(1, id_));
  if (!write_all(file_.get(), log_.frame(record)))
    fail(Status::io, "{}: write failed: {}", path_, system_reason(errno));
}

// HistoryRecord {1 item, 2 step {1 num}}; what is new is the run's summary, too.
void WandbFile::write(const Record& record) {
  const StepScalars all = scalars_of(record);
  const double now = wall_time();
  std::string items = item("_step", std::to_string(all.step)) +
                      item("_timestamp", exact(now)) +
                      item("_runtime", exact(now - start_));
  for (const auto& [tag, value] : all.scalars) items += item(tag, exact(value));
  append(3, items);
  append(2, items + wire::bytes(2, wire::whole(1, static_cast<std::uint64_t>(all.step))));
}

void WandbFile::write_text(std::int64_t step, const std::string& tag,
                           const std::string& text) {
  append(2, item("_step", std::to_string(step)) + item(tag, json_text(text)) +
                wire::bytes(2, wire::whole(1, static_cast<std::uint64_t>(step))));
}

// RunExitRecord {1 exit_code, 2 runtime}
void WandbFile::finish(RunEnd end) {
  append(18, wire::whole(1, end == RunEnd::failed ? 1 : 0) +
                 wire::whole(2, static_cast<std::uint64_t>(wall_time() - start_)));
}

}  // namespace trireme::io
