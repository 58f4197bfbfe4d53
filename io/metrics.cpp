// metrics.jsonl: one JSON object a line, at full precision.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"

namespace trireme::io {
namespace {

std::string number(double value) { return std::isfinite(value) ? exact(value) : "null"; }

// Renames "metrics.jsonl" to the first free "metrics-N.jsonl".
void set_aside(const Directory& folder, const std::string& name) {
  const auto dot = std::min(name.find_last_of('.'), name.size());
  for (int n = 1;; ++n) {
    const std::string other = format("{}-{}{}", name.substr(0, dot), n, name.substr(dot));
    if (folder.has(other)) continue;
    folder.rename(name, other);
    return;
  }
}

// Is a record of a step up to `last`, or of none?
bool is_kept(const nlohmann::json& record, std::int64_t last) {
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step == record.end() || !step->is_number() ||
         step->get<double>() <= static_cast<double>(last);
}

// Of a training step: these stand in the file in their order, where a line that tells of
// a checkpoint may stand behind later steps.
bool is_step(const nlohmann::json& record) {
  const auto step = record.find("step");
  return record.contains("loss") && step != record.end() && step->is_number();
}

// The lines behind the last training step up to some step.
struct Tail {
  std::int64_t begin = 0;  // byte of the file, which has `bytes`
  std::int64_t bytes = 0;
  std::string kept;    // those that stay
  bool moves = false;  // something before them goes
};

Tail tail_after(const Directory& folder, const std::string& name, std::int64_t last) {
  LinesFromEnd lines(folder, name);
  Tail tail;
  tail.begin = tail.bytes = lines.bytes();
  std::vector<std::string> kept;  // from the last to the first
  while (const auto line = lines.next()) {
    nlohmann::json record;
    if (line->whole) record = nlohmann::json::parse(line->text, nullptr, false);
    const bool stays = is_kept(record, last);
    if (stays && is_step(record)) break;
    tail.begin = line->begin;
    if (stays)
      kept.push_back(line->text + "\n");
    else
      tail.moves = tail.moves || !kept.empty();
  }
  for (auto line = kept.rbegin(); line != kept.rend(); ++line) tail.kept += *line;
  return tail;
}

// Copies the first bytes of a file into another.
void copy_head(const PlainFile& from, std::int64_t bytes, const Descriptor& to) {
  std::string block(std::size_t{1} << 20, '\0');
  for (std::int64_t done = 0; done < bytes;) {
    block.resize(static_cast<std::size_t>(
        std::min(bytes - done, static_cast<std::int64_t>(block.size()))));
    from.read(done, std::as_writable_bytes(std::span(block)));
    if (!write_all(to.get(), block))
      fail(Status::io, "{}: the copy of it cannot be written: {}", from.path(),
           system_reason(errno));
    done += std::ssize(block);
  }
}

// A file with other names too, as a copy of hard links has, is written anew, so that the
// copy stays as it is.
void write_anew(const Directory& folder, const std::string& name, const Tail& tail) {
  const std::string draft = format("{}.tmp-{}", name, ::getpid());
  TemporaryFile unfinished(folder.path_of(draft));
  Descriptor file = folder.create(draft);
  copy_head(PlainFile(folder, name), tail.begin, file);
  const bool written = write_all(file.get(), tail.kept) &&
                       uninterrupted([&] { return ::fsync(file.get()); }) == 0 &&
                       file.close();
  if (!written)
    fail(Status::io, "{}: write failed: {}", unfinished.path(), system_reason(errno));
  unfinished.place([&] { folder.rename(draft, name); });
  folder.sync();
}

// Drops the lines that will be written again. What lies before the last step that stays
// is neither read nor written: the file of a long run has gigabytes.
void drop_after(const Directory& folder, const std::string& name, std::int64_t last) {
  const Tail tail = tail_after(folder, name, last);
  if (folder.is_shared(name)) return write_anew(folder, name, tail);
  const std::int64_t end = tail.begin + std::ssize(tail.kept);
  if (end == tail.bytes) return;
  const Descriptor file = folder.open_to_write(name);
  const bool changed =
      (!tail.moves || (::lseek(file.get(), tail.begin, SEEK_SET) == tail.begin &&
                       write_all(file.get(), tail.kept))) &&
      uninterrupted([&] { return ::ftruncate(file.get(), end); }) == 0 &&
      uninterrupted([&] { return ::fsync(file.get()); }) == 0;
  if (!changed)
    fail(Status::io, "{}: lines of later steps cannot be dropped: {}",
         folder.path_of(name), system_reason(errno));
}

}  // namespace

Record& Record::set(const std::string& key, double value) {
  fields_.emplace_back(key, number(value));
  return *this;
}

Record& Record::set(const std::string& key, std::int64_t value) {
  fields_.emplace_back(key, std::to_string(value));
  return *this;
}

Record& Record::set(const std::string& key, const std::string& value) {
  fields_.emplace_back(key, json_text(value));
  return *this;
}

Record& Record::set(const std::string& key, const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + number(value);
  fields_.emplace_back(key, "[" + text + "]");
  return *this;
}

Record& Record::set(const std::string& key, const Record& value) {
  fields_.emplace_back(key, value.json());
  for (const auto* fields : {&value.fields_, &value.within_})
    for (const auto& [name, text] : *fields)
      if (!text.starts_with('{') && !text.starts_with('['))
        within_.emplace_back(key + "." + name, text);
  return *this;
}

Record& Record::set(const std::string& key, const std::vector<Record>& values) {
  std::string text;
  for (const Record& value : values) text += (text.empty() ? "" : ", ") + value.json();
  fields_.emplace_back(key, "[" + text + "]");
  return *this;
}

Record& Record::append(const Record& other) {
  fields_.insert(fields_.end(), other.fields_.begin(), other.fields_.end());
  within_.insert(within_.end(), other.within_.begin(), other.within_.end());
  return *this;
}

Record Record::flat() const {
  Record all;
  all.fields_ = fields_;
  all.fields_.insert(all.fields_.end(), within_.begin(), within_.end());
  return all;
}

std::vector<std::pair<std::string, double>> Record::numbers() const {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [key, text] : fields_) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end) out.emplace_back(key, value);
  }
  return out;
}

std::string Record::json() const {
  std::string text;
  for (const auto& [key, value] : fields_)
    text += (text.empty() ? "{" : ", ") + json_text(key) + ": " + value;
  return text.empty() ? "{}" : text + "}";
}

double wall_time() {
  using std::chrono::milliseconds;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<milliseconds>(since).count()) /
         1e3;
}

Record metrics_line(const std::string& kind, const Record& record) {
  return Record().set("kind", kind).set("wall_time", wall_time()).append(record.flat());
}

std::vector<StepLine> read_steps(const std::string& path, std::int64_t last,
                                 std::int64_t most) {
  std::vector<StepLine> steps;
  const Directory folder(parent_of(path));
  if (!folder.has(last_name_of(path))) return steps;
  LinesFromEnd lines(folder, last_name_of(path));
  const auto number_in = [](const nlohmann::json& record, const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_number() ? found->get<double>()
                                                       : std::nan("");
  };
  while (std::ssize(steps) < most) {
    const auto line = lines.next();
    if (!line) break;
    const auto record = nlohmann::json::parse(line->text, nullptr, false);
    if (!record.is_object() || !is_step(record)) continue;
    const double step = number_in(record, "step");
    if (!(step >= 0 && step <= static_cast<double>(last))) continue;
    steps.push_back({static_cast<std::int64_t>(step), number_in(record, "loss"),
                     number_in(record, "grad_norm"), number_in(record, "step_seconds"),
                     record.contains("skipped")});
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t resumed) : path_(path) {
  const Directory folder(parent_of(path));
  const std::string name = last_name_of(path);
  folder.require_file(name);
  if (folder.has(name)) {
    if (resumed > 0)
      drop_after(folder, name, resumed);
    else
      set_aside(folder, name);
  }
  file_ = folder.open_to_append(name);
}

void MetricsFile::write(const Record& record) {
  const std::string text = record.json() + "\n";
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  if (write_all(file_.get(), text)) return;
  const int error = errno;
  // No torn line is left before the next one; if this fails too, a resumed run drops it.
  const auto cut = [&] { return ::ftruncate(file_.get(), before); };
  if (before >= 0) static_cast<void>(uninterrupted(cut));
  fail(Status::io, "{}: write failed: {}", path_, system_reason(error));
}

}  // namespace trireme::io
