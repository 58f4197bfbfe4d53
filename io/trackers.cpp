// Trackers: a failure of one is a warning.
// SPDX-License-Identifier: Apache-2.0
#include "io/trackers.hpp"

#include <exception>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/event_file.hpp"
#include "io/mlflow_folder.hpp"
#include "io/wandb_file.hpp"

namespace trireme::io {
namespace {

std::unique_ptr<Tracker> make_tracker(const std::string& name, const TrackedRun& run) {
  if (name == "tensorboard") return std::make_unique<EventFile>(run);
  if (name == "wandb") return std::make_unique<WandbFile>(run);
  if (name == "mlflow") return std::make_unique<MlflowFolder>(run);
  fail(Status::internal, "metrics.trackers: no tracker '{}'", name);
}

// Whether the call went well.
bool tried(const std::string& name, const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    log::warn("{}: {}; the run goes on without it, and metrics.jsonl has all", name,
              error.what());
    return false;
  }
}

}  // namespace

Trackers::~Trackers() { finish(RunEnd::failed); }

void Trackers::open(const std::vector<std::string>& names, const TrackedRun& run) {
  for (const auto& name : names) tried(name, [&] { add(name, make_tracker(name, run)); });
}

void Trackers::add(const std::string& name, std::unique_ptr<Tracker> tracker) {
  entries_.push_back({name, std::move(tracker)});
}

void Trackers::for_each(const std::function<void(Tracker&)>& call) {
  std::erase_if(entries_, [&](const Entry& entry) {
    return !tried(entry.name, [&] { call(*entry.tracker); });
  });
}

void Trackers::write(const Record& record) {
  for_each([&](Tracker& tracker) { tracker.write(record); });
}

void Trackers::write_text(std::int64_t step, const std::string& tag,
                          const std::string& text) {
  for_each([&](Tracker& tracker) { tracker.write_text(step, tag, text); });
}

void Trackers::finish(RunEnd end) {
  for_each([&](Tracker& tracker) { tracker.finish(end); });
  entries_.clear();
}

}  // namespace trireme::io
