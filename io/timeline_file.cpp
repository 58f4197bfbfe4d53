// TimelineFile: events as JSON objects, a line each.
// SPDX-License-Identifier: Apache-2.0
#include "io/timeline_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "base/version.hpp"
#include "io/json.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{64} << 10;

// 1234567 as "1234.567".
std::string thousandths(std::int64_t number) {
  const std::int64_t size = number < 0 ? -number : number;
  const std::string digits = std::to_string(1000 + size % 1000);
  return (number < 0 ? "-" : "") + std::to_string(size / 1000) + "." + digits.substr(1);
}

std::string arguments_of(const Timeline::Event& event) {
  std::string text;
  const auto put = [&](const std::string& key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + json_text(key) + ": " + value;
  };
  if (event.group.front() != '\0') put("group", json_text(event.group.data()));
  for (const Timeline::Note& note : event.notes) {
    if (note.key == nullptr) break;
    put(note.key,
        note.word != nullptr ? json_text(note.word) : std::to_string(note.number));
  }
  return "{" + text + "}";
}

}  // namespace

TimelineFile::TimelineFile(const Directory& folder, std::string name, Process process)
    : folder_(Directory::own(folder.path())),
      name_(std::move(name)),
      draft_(format("{}.tmp-{}", name_, ::getpid())),
      process_(std::move(process)) {
  folder_.require_file(name_);
  unfinished_ = std::make_unique<TemporaryFile>(folder_.path_of(draft_));
  file_ = folder_.create(draft_);
  text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
}

std::string TimelineFile::microseconds(std::int64_t nanoseconds) const {
  return thousandths(nanoseconds - process_.zero_ns);
}

void TimelineFile::write(const Timeline::Event& event) {
  last_thread_ = std::max(last_thread_, event.thread);
  if (event.id < 0)
    return add(format(
        "{\"name\": {}, \"cat\": \"range\", \"ph\": \"X\", \"ts\": {}, \"dur\": {}, "
        "\"pid\": {}, \"tid\": {}, \"args\": {}}",
        json_text(event.name), microseconds(event.begin_ns),
        thousandths(event.end_ns - event.begin_ns), process_.rank, event.thread,
        arguments_of(event)));
  const std::string name = json_text(event.name + std::string(" ") + event.group.data());
  const auto mark = [&](const char* phase, std::int64_t time, const std::string& more) {
    add(
        format("{\"name\": {}, \"cat\": \"collective\", \"ph\": \"{}\", "
               "\"id2\": {\"local\": \"{}\"}, \"ts\": {}, \"pid\": {}, \"tid\": 0{}}",
               name, phase, event.id, microseconds(time), process_.rank, more));
  };
  mark("b", event.begin_ns, ", \"args\": " + arguments_of(event));
  mark("e", event.end_ns, "");
}

void TimelineFile::add(const std::string& object) {
  text_ += (has_events_ ? ",\n" : "\n") + object;
  has_events_ = true;
  if (text_.size() >= block_bytes) flush();
}

void TimelineFile::metadata(const std::string& name, int thread,
                            const std::string& arguments) {
  add(format("{\"name\": \"{}\", \"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"args\": {}}",
             name, process_.rank, thread, arguments));
}

void TimelineFile::flush() {
  if (!write_all(file_.get(), text_))
    fail(Status::io, "{}: write failed: {}", folder_.path_of(name_),
         system_reason(errno));
  text_.clear();
}

void TimelineFile::close(std::int64_t dropped) {
  const std::string name =
      format("rank {} of {}, {}", process_.rank, process_.ranks, process_.host);
  metadata("process_name", 0, "{\"name\": " + json_text(name) + "}");
  metadata("process_sort_index", 0, format("{\"sort_index\": {}}", process_.rank));
  for (int thread = 0; thread <= last_thread_; ++thread)
    metadata("thread_name", thread,
             format("{\"name\": \"{}\"}",
                    thread == 0 ? "training" : format("thread {}", thread)));
  text_ += format(
      "\n], \"otherData\": {\"program\": \"trireme {}\", \"rank\": {}, \"ranks\": {}, "
      "\"zero\": {}, \"dropped_events\": {}}}\n",
      build_info().version, process_.rank, process_.ranks, json_text(process_.zero),
      dropped);
  flush();
  if (!file_.close())
    fail(Status::io, "{}: close failed: {}", folder_.path_of(name_),
         system_reason(errno));
  unfinished_->place([&] { folder_.rename(draft_, name_); });
}

}  // namespace trireme::io
