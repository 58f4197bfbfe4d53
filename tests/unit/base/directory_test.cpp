// Directory: what is in the way of a run's files is named, and never followed.
// SPDX-License-Identifier: Apache-2.0
#include "base/directory.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/path.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    std::string name = fs::temp_directory_path() / "trireme-directory-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    fs::create_directories(path("run"));
    fs::create_directories(path("elsewhere/sub"));
    put("elsewhere/file", "precious");
    put("elsewhere/sub/file", "precious");
  }
  ~DirectoryTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string text(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path(name), std::ios::binary).rdbuf();
    return out.str();
  }
  // Everything below the folder that a test must leave as it is.
  void expect_untouched() const {
    EXPECT_EQ(text("elsewhere/file"), "precious");
    EXPECT_EQ(text("elsewhere/sub/file"), "precious");
    EXPECT_EQ(std::distance(fs::recursive_directory_iterator(path("elsewhere")), {}), 3);
    EXPECT_FALSE(fs::exists(path("nowhere")));
  }

  std::string folder_;
};

// Each kind of thing that may be in the way, and the words for it.
struct Obstacle {
  std::string words;
  std::function<void(const std::string&)> plant;
};

void plant_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  ::close(socket);
}

std::vector<Obstacle> links(const std::string& folder) {
  std::vector<Obstacle> all;
  for (const std::string& target :
       {folder + "/elsewhere/file", folder + "/elsewhere/sub", folder + "/nowhere",
        std::string("/dev/zero"), std::string("loop")})
    all.push_back({"is a symbolic link",
                   [target](const std::string& at) { fs::create_symlink(target, at); }});
  return all;
}

std::vector<Obstacle> in_the_way_of_a_file(const std::string& folder) {
  auto all = links(folder);
  all.push_back({"is a FIFO", [](const std::string& at) { ::mkfifo(at.c_str(), 0666); }});
  all.push_back({"is a socket", plant_socket});
  all.push_back(
      {"is a directory", [](const std::string& at) { fs::create_directory(at); }});
  return all;
}

// Expects an Error(cannot_create) of `work` that names the path first.
void expect_refused(const std::string& path, const std::string& words,
                    const std::function<void()>& work) {
  try {
    work();
    ADD_FAILURE() << path << " was taken, though it " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
    EXPECT_EQ(std::string(error.what()).find(path + ": " + words), 0u) << error.what();
  }
}

TEST_F(DirectoryTest, MakesFilesAndFolders) {
  const Directory run(path("run"));
  const Directory deep = run.make("a").make("b");
  EXPECT_EQ(deep.path(), path("run/a/b"));
  EXPECT_EQ(run.make("a").path(), path("run/a")) << "it is there already";
  EXPECT_TRUE(write_all(deep.create("new").get(), "1"));
  EXPECT_TRUE(write_all(deep.open_to_append("new").get(), "2"));
  EXPECT_EQ(text("run/a/b/new"), "12");
  EXPECT_TRUE(write_all(deep.open_to_write("new").get(), "3"));
  EXPECT_EQ(text("run/a/b/new"), "32");
  EXPECT_TRUE(deep.read_file("new").is_open());
  EXPECT_FALSE(deep.read_file("none").is_open());
  replace_text(run, "text", "one", Durability::synced);
  replace_text(run, "text", "two", Durability::unsynced);
  EXPECT_EQ(text("run/text"), "two");
  EXPECT_EQ(run.names(), (std::vector<std::string>{"a", "text"}));
  run.rename("text", "other");
  run.rename_into(deep, "other");
  EXPECT_TRUE(deep.is_file("other"));
  EXPECT_TRUE(deep.remove("other"));
  EXPECT_TRUE(deep.remove("other")) << "there is none";
  EXPECT_TRUE(run.remove_tree("a"));
  EXPECT_TRUE(run.remove_tree("a"));
  EXPECT_TRUE(run.names().empty());
  EXPECT_THROW((void)run.create("a/b"), Error);
  EXPECT_THROW((void)run.open(".."), Error);
  EXPECT_EQ(Directory::make_own(path("run/c/")).path(), path("run/c"));
}

TEST_F(DirectoryTest, TheFolderItselfMayBeALink) {
  fs::create_directory_symlink("run", path("link"));
  replace_text(Directory(path("link")), "a", "x", Durability::synced);
  EXPECT_EQ(text("run/a"), "x");
  expect_refused(path("link"), "is a symbolic link",
                 [&] { (void)Directory::own(path("link/")); });
  expect_refused(path("link"), "is a symbolic link",
                 [&] { (void)Directory::make_own(path("link")); });
}

TEST_F(DirectoryTest, WhatIsNoFileIsNotWritten) {
  const Directory run(path("run"));
  const std::string draft = format("name.tmp-{}", ::getpid());
  for (const auto& [words, plant] : in_the_way_of_a_file(folder_)) {
    const std::string at = path("run/name");
    plant(at);
    expect_refused(at, words, [&] { (void)run.create("name"); });
    expect_refused(at, words, [&] { (void)run.open_to_append("name"); });
    expect_refused(at, words, [&] { (void)run.open_to_write("name"); });
    expect_refused(at, words,
                   [&] { replace_text(run, "name", "x", Durability::synced); });
    expect_refused(at, words, [&] { run.require_file("name"); });
    EXPECT_FALSE(run.read_file("name").is_open()) << words;
    EXPECT_EQ(run.names().size(), 1u) << "what is in the way stays, and nothing else";
    EXPECT_TRUE(run.remove_tree("name"));
    plant(path("run/" + draft));
    expect_refused(path("run/" + draft), words,
                   [&] { replace_text(run, "name", "x", Durability::synced); });
    EXPECT_TRUE(run.remove_tree(draft));
    EXPECT_TRUE(run.names().empty());
    expect_untouched();
  }
}

TEST_F(DirectoryTest, WhatIsNoFolderIsNotEntered) {
  const Directory run(path("run"));
  auto obstacles = links(folder_);
  obstacles.push_back(
      {"is a file", [](const std::string& at) { std::ofstream(at).put('x'); }});
  for (const auto& [words, plant] : obstacles) {
    const std::string at = path("run/name");
    plant(at);
    expect_refused(at, words, [&] { (void)run.open("name"); });
    expect_refused(at, words, [&] { (void)run.make("name"); });
    expect_refused(at, words, [&] { run.require_folder("name"); });
    EXPECT_TRUE(run.remove_tree("name"));
    expect_untouched();
  }
}

TEST_F(DirectoryTest, RenamesReplaceNoLink) {
  const Directory run(path("run"));
  put("run/a", "x");
  fs::create_symlink(path("elsewhere/file"), path("run/b"));
  expect_refused(path("run/b"), "is a symbolic link", [&] { run.rename("a", "b"); });
  EXPECT_TRUE(run.is_link("b"));
  EXPECT_EQ(text("run/a"), "x");
  expect_untouched();
}

TEST_F(DirectoryTest, RemovingATreeLeavesWhatLinksLeadTo) {
  const Directory run(path("run"));
  fs::create_directories(path("run/tree/sub"));
  put("run/tree/sub/file", "x");
  fs::create_symlink(path("elsewhere"), path("run/tree/link"));
  fs::create_symlink(path("elsewhere/file"), path("run/tree/sub/link"));
  fs::create_symlink("..", path("run/tree/sub/up"));
  EXPECT_EQ(::mkfifo(path("run/tree/pipe").c_str(), 0666), 0);
  EXPECT_TRUE(run.remove_tree("tree"));
  EXPECT_TRUE(run.names().empty());
  fs::create_directory_symlink(path("elsewhere"), path("run/tree"));
  EXPECT_TRUE(run.remove_tree("tree")) << "the link alone";
  EXPECT_TRUE(run.names().empty());
  expect_untouched();
}

TEST_F(DirectoryTest, OtherNamesOfAFileKeepItsBytes) {
  const Directory run(path("run"));
  for (const bool draft : {true, false}) {
    const std::string name = draft ? format("a.tmp-{}", ::getpid()) : "a";
    fs::create_hard_link(path("elsewhere/file"), path("run/" + name));
    EXPECT_TRUE(run.is_shared(name));
    replace_text(run, "a", "x", Durability::synced);
    EXPECT_EQ(text("run/a"), "x");
    EXPECT_FALSE(run.is_shared("a"));
    EXPECT_TRUE(run.remove("a"));
  }
  fs::create_hard_link(path("elsewhere/file"), path("run/b"));
  EXPECT_TRUE(write_all(run.create("b").get(), "x"));
  expect_untouched();
}

TEST_F(DirectoryTest, ModesAreTheUmasks) {
  for (const mode_t mask : {0077, 0027, 0002, 0000}) {
    const mode_t before = ::umask(mask);
    const Directory run = Directory(path("run")).make(std::to_string(mask));
    (void)run.create("a");
    (void)run.open_to_append("b");
    replace_text(run, "c", "x", Durability::unsynced);
    ::umask(before);
    struct stat status {};
    EXPECT_EQ(::stat(run.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0777 & ~mask);
    for (const auto& name : run.names()) {
      EXPECT_EQ(::stat(run.path_of(name).c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0666 & ~mask) << name;
    }
  }
}

TEST_F(DirectoryTest, PathsSayWhatTheyLeadTo) {
  fs::create_symlink(path("elsewhere/sub"), path("link"));
  fs::create_symlink(path("nowhere"), path("broken"));
  EXPECT_TRUE(is_folder(path("run")) && is_folder(path("link/")));
  EXPECT_TRUE(is_there(path("link")) && is_there(path("elsewhere/file")));
  EXPECT_FALSE(is_folder(path("elsewhere/file")) || is_folder(path("broken")));
  EXPECT_FALSE(is_there(path("broken")) || is_there(""));
  EXPECT_EQ(without_slashes("runs/a//"), "runs/a");
  EXPECT_EQ(without_slashes("//"), "/");
  EXPECT_EQ(without_slashes(""), "");
}

}  // namespace
}  // namespace trireme
