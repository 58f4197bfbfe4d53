// TensorBoard event files: scalars, texts and a run's settings, written natively.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "io/tracker.hpp"

namespace trireme::io {

// CRC-32C (Castagnoli) of bytes, and the form of it that TFRecord stores.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// One frame: length, its checksum, the data, its checksum.
std::string tf_record(std::string_view data);

// Messages of event.proto, to be framed. wall_time: seconds since 1970.
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const Scalar> scalars);
// Text for TensorBoard's page of texts, which shows it as Markdown.
std::string text_event(double wall_time, std::int64_t step, const std::string& tag,
                       const std::string& text);
// Says that a session starts: TensorBoard drops what earlier files hold from `step` on.
std::string session_start_event(double wall_time, std::int64_t step);
// For the page of hyperparameters: a run's settings, and that it has ended.
std::string settings_event(double wall_time, const std::vector<DeckSetting>& settings);
std::string settings_end_event(double wall_time, RunEnd end);

// A new file in a run's directory, for one start of it; TensorBoard names the run after
// the directory. A run that has a folder `tensorboard`, as version 0.1 made, goes on
// there. Each record is in the file when write() returns.
class EventFile : public Tracker {
 public:
  // Makes the directory, and a file that sorts behind those that are there; points after
  // step run.resumed of earlier files are superseded. Throws Error(cannot_create), or
  // Error(io).
  explicit EventFile(const TrackedRun& run);

  void write(const Record& record) override;
  void write_text(std::int64_t step, const std::string& tag,
                  const std::string& text) override;
  void finish(RunEnd end) override;
  const std::string& path() const { return path_; }

 private:
  void append(const std::string& event);

  std::string path_;
  Descriptor file_;
};

}  // namespace trireme::io
