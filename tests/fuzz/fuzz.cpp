// What the fuzzing targets share.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace trireme::fuzz {
namespace {

constexpr std::size_t most_message_bytes = 64 << 10;

struct Folder {
  Folder() {
    const char* const chosen = std::getenv("TMPDIR");
    path = chosen != nullptr                 ? chosen
           : ::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp";
    path += "/trireme-fuzz-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) finding("cannot make " + path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace

void finding(const std::string& text) {
  std::fprintf(stderr, "finding: %s\n", text.c_str());
  std::abort();
}

const std::string& folder() {
  static const Folder own;
  return own.path;
}

std::string put(const std::string& name, std::string_view content) {
  std::string path = folder() + "/" + name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) finding("cannot write " + path);
  return path;
}

void make_directory(const std::string& name) {
  std::filesystem::create_directory(folder() + "/" + name);
}

std::pair<std::string, std::string> split_at(std::string_view text,
                                             std::string_view mark) {
  const std::string line = "\n" + std::string(mark) + "\n";
  const auto at = text.find(line);
  if (at == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, at + 1)),
          std::string(text.substr(at + line.size()))};
}

void require_refusal(const Error& error) {
  const bool is_refusal = error.status() == Status::bad_content ||
                          error.status() == Status::missing_input ||
                          error.status() == Status::command_line;
  const std::string text = error.what();
  if (!is_refusal)
    finding(format("status {} for content: {}", static_cast<int>(error.status()), text));
  if (text.empty() || text.size() > most_message_bytes)
    finding(format("a message of {} bytes", text.size()));
}

void require_equal(const std::string& what, const std::string& a, const std::string& b) {
  if (a != b) finding(what + ":\n" + a + "\n-- is not --\n" + b);
}

}  // namespace trireme::fuzz
