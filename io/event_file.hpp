// TensorBoard event files: scalars in TFRecord frames, written natively.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/metrics.hpp"

namespace trireme::io {

// CRC-32C (Castagnoli) of bytes, and the form of it that TFRecord stores.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// One frame: length, its checksum, the data, its checksum.
std::string tf_record(std::string_view data);

// Messages of event.proto, to be framed. wall_time: seconds since 1970.
using Scalar = std::pair<std::string, double>;
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const Scalar> scalars);
// Text for TensorBoard's page of texts, which shows it as Markdown.
std::string text_event(double wall_time, std::int64_t step, const std::string& tag,
                       const std::string& text);
// Says that a session starts: TensorBoard drops what earlier files hold from `step` on.
std::string session_start_event(double wall_time, std::int64_t step);

// "train/loss" of "loss": the tag under which TensorBoard shows a key of metrics.jsonl.
std::string tag_of(const std::string& key);

// A new file in a directory, for one start of a run. Each record is in the file when
// write() returns.
class EventFile {
 public:
  // Makes the directory, and a file that sorts behind those that are there; points after
  // step `resumed` of earlier files are superseded. Throws Error(cannot_create), also
  // when the directory is a link, or Error(io).
  EventFile(const std::string& directory, std::int64_t resumed);

  // The numbers of a record, as points of its "step". Throws Error(io).
  void write(const Record& record);
  // A text of a step. Throws Error(io).
  void write_text(std::int64_t step, const std::string& tag, const std::string& text);
  const std::string& path() const { return path_; }

 private:
  void append(const std::string& event);

  std::string path_;
  Descriptor file_;
};

}  // namespace trireme::io
