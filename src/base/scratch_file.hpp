// ScratchFile: room on a disk that this process alone uses, and that ends with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.hpp"

namespace trireme {

// A file whose name is removed as soon as it is open: the system frees its room when the
// process ends, however it ends. It starts as zeros, and all of its room is taken when it
// is made, so that no later write finds the disk full.
//
// read() and write() pass by the system's cache where the file system allows it (direct
// I/O), and through it elsewhere. map() shows the same bytes as memory, for what is rare:
// flush_mapping() comes between writing there and the next read() or write().
class ScratchFile {
 public:
  // Of what is read and written, in bytes: begin, length, and the memory's address.
  static constexpr std::int64_t block = 4096;

  struct Config {
    std::string folder;    // is there
    std::string name;      // of the file, for messages
    std::string contents;  // what needs the room, for messages: "the state of rank 3"
    std::string remedy;    // what to do where there is too little room
    bool direct = true;    // false: never by direct I/O
  };

  ScratchFile() = default;
  // bytes: a multiple of `block`. Throws Error(resources), naming the folder and the
  // bytes that are needed and free, where there is no room; Error(cannot_create) or
  // Error(io) otherwise.
  ScratchFile(const Config& config, std::int64_t bytes);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // Throw Error(io), naming the file and the byte where it went wrong. Different parts
  // may be read and written at once.
  void read(std::int64_t begin, std::span<std::byte> out) const;
  void write(std::int64_t begin, std::span<const std::byte> bytes) const;
  // Any bytes, to anywhere.
  void read_any(std::int64_t begin, std::span<std::byte> out) const;

  // The whole file as memory. An error of the disk while it is used there ends the
  // process by SIGBUS.
  std::byte* map();
  // What was written to that memory is in the file, and its pages are given back.
  void flush_mapping();

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  bool is_direct() const { return direct_; }
  int descriptor() const { return file_.get(); }

 private:
  void take_room(const Config& config) const;
  void choose_direct(bool wanted);
  void unmap();

  std::string path_;
  Descriptor file_;
  std::int64_t bytes_ = 0;
  bool direct_ = false;
  std::byte* mapped_ = nullptr;
};

}  // namespace trireme
