// Writing a safetensors file, tensor after tensor.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>

#include "base/system_reason.hpp"
#include "io/safetensors.hpp"

namespace trireme::io {

SafetensorsWriter::SafetensorsWriter(const Directory& folder, const std::string& name,
                                     const SafetensorsPlan& plan)
    : path_(folder.path_of(name)), file_(folder.create(name)), left_(plan.bytes()) {
  put(plan.head());
}

void SafetensorsWriter::put(std::string_view bytes) {
  left_ -= static_cast<std::int64_t>(bytes.size());
  require(left_ >= 0, "{}: more is written than was planned", path_);
  if (!write_all(file_.get(), bytes))
    fail(Status::io, "{}: write failed: {}", path_, system_reason(errno));
}

void SafetensorsWriter::write(const TensorView& data) {
  require(data.is_dense(), "{}: what is written must be dense", path_);
  put({static_cast<const char*>(data.raw()), data.bytes()});
}

void SafetensorsWriter::close() {
  require(left_ == 0, "{}: {} bytes were not written", path_, left_);
  if (uninterrupted([&] { return ::fsync(file_.get()); }) != 0 || !file_.close())
    fail(Status::io, "{}: cannot be written: {}", path_, system_reason(errno));
}

}  // namespace trireme::io
