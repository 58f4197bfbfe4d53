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

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"

namespace trireme::io {
namespace {

// Bytes that are no UTF-8 are replaced, so that a line is always JSON.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

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

// Is `line` an object whose step, if it has one, is at most `last`?
bool is_kept(const std::string& line, std::int64_t last) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step == record.end() || !step->is_number() ||
         step->get<double>() <= static_cast<double>(last);
}

// Drops the lines that will be written again. A file with other names too, as a copy of
// hard links has, is written anew, so that the copy stays as it is.
void drop_after(const Directory& folder, const std::string& name, std::int64_t last) {
  LineReader lines(folder, name);
  std::string kept;
  bool changed = folder.is_shared(name);
  while (const auto line = lines.next()) {
    if (lines.whole() && is_kept(*line, last))
      kept += *line + "\n";
    else
      changed = true;
  }
  if (changed) write_text_atomically(folder, name, kept);
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
  fields_.emplace_back(key, quoted(value));
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
    text += (text.empty() ? "{" : ", ") + quoted(key) + ": " + value;
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
  LineReader lines(folder, last_name_of(path));
  const auto number_in = [](const nlohmann::json& record, const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_number() ? found->get<double>()
                                                       : std::nan("");
  };
  while (const auto line = lines.next()) {
    const auto record = nlohmann::json::parse(*line, nullptr, false);
    if (!record.is_object() || !record.contains("loss") || !record.contains("step"))
      continue;
    const double step = number_in(record, "step");
    if (!(step >= 0 && step <= static_cast<double>(last))) continue;
    steps.push_back({static_cast<std::int64_t>(step), number_in(record, "loss"),
                     number_in(record, "grad_norm"), record.contains("skipped")});
  }
  if (std::ssize(steps) > most) steps.erase(steps.begin(), steps.end() - most);
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
  file_ = folder.open_file(name, true);
}

void MetricsFile::write(const Record& record) {
  const std::string text = record.json() + "\n";
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  if (write_all(file_.get(), text)) return;
  const int error = errno;
  // No torn line is left before the next one; if this fails too, a resumed run drops it.
  const auto cut = [&] { return ::ftruncate(file_.get(), before); };
  if (before >= 0 && uninterrupted(cut) != 0) errno = error;
  fail(Status::io, "{}: write failed: {}", path_, system_reason(error));
}

}  // namespace trireme::io
