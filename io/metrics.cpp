// metrics.jsonl: one JSON object a line, at full precision.
// SPDX-License-Identifier: Apache-2.0
#include "io/metrics.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

// Bytes that are no UTF-8 are replaced, so that a line is always JSON.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string number(double value) { return std::isfinite(value) ? exact(value) : "null"; }

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Renames "metrics.jsonl" to the first free "metrics-N.jsonl".
void set_aside(const std::string& path) {
  const auto slash = path.find_last_of('/');
  auto dot = path.find_last_of('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    dot = path.size();
  for (int n = 1;; ++n) {
    const std::string other = format("{}-{}{}", path.substr(0, dot), n, path.substr(dot));
    if (exists(other)) continue;
    if (::rename(path.c_str(), other.c_str()) != 0)
      fail(Status::cannot_create, "{}: cannot be kept as '{}': {}", path, other,
           std::strerror(errno));
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

// Drops the lines that will be written again.
void drop_after(const std::string& path, std::int64_t last) {
  std::ifstream in(path, std::ios::binary);
  require(in.good(), Status::io, "{}: cannot be read", path);
  std::string kept, line;
  bool changed = false;
  while (std::getline(in, line)) {
    if (!in.eof() && is_kept(line, last))
      kept += line + "\n";
    else
      changed = true;
  }
  require(!in.bad(), Status::io, "{}: read failed", path);
  if (changed) write_text_atomically(path, kept);
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
  return *this;
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

std::vector<StepLine> read_steps(const std::string& path, std::int64_t last,
                                 std::int64_t most) {
  std::vector<StepLine> steps;
  if (!exists(path)) return steps;
  std::ifstream in(path, std::ios::binary);
  require(in.good(), Status::io, "{}: cannot be read", path);
  const auto number_in = [](const nlohmann::json& record, const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_number() ? found->get<double>()
                                                       : std::nan("");
  };
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("loss") || !record.contains("step"))
      continue;
    const double step = number_in(record, "step");
    if (!(step <= static_cast<double>(last))) continue;
    steps.push_back({static_cast<std::int64_t>(step), number_in(record, "loss"),
                     number_in(record, "grad_norm"), record.contains("skipped")});
  }
  require(!in.bad(), Status::io, "{}: read failed", path);
  if (std::ssize(steps) > most) steps.erase(steps.begin(), steps.end() - most);
  return steps;
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t resumed) : path_(path) {
  if (is_regular(path)) {  // a pipe or a device has no lines of an earlier run
    if (resumed > 0)
      drop_after(path, resumed);
    else
      set_aside(path);
  }
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    fail(Status::cannot_create, "{}: cannot be created: {}", path, std::strerror(errno));
}

MetricsFile::~MetricsFile() { ::close(file_); }

void MetricsFile::write(const Record& record) {
  const std::string text = record.json() + "\n";
  const off_t before = ::lseek(file_, 0, SEEK_END);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(file_, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) {
      const int error = errno;
      // No torn line is left before the next one; if this fails too, a resumed run
      // drops it.
      if (before >= 0 && ::ftruncate(file_, before) != 0) errno = error;
      fail(Status::io, "{}: write failed: {}", path_, std::strerror(error));
    }
    done += static_cast<std::size_t>(put);
  }
}

}  // namespace trireme::io
