// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "headwise/io/file_error.h"
#include "headwise/io/mapped_file.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// For one test no file of this process may grow past a few bytes: writes then fail as on a full disk.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallFilesOnly() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(OutputFile, AppearsWholeWithCommit) {
  const TemporaryFolder folder;
  OutputFile file(folder.file("out"));
  file.write("hello ");
  file.write("world");
  EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
  file.commit();
  EXPECT_EQ(folder.read("out"), "hello world");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(OutputFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  folder.write("out", "before");
  { OutputFile(folder.file("out")).write("after"); }
  EXPECT_EQ(folder.read("out"), "before");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(OutputFile, AFullDiskIsAnErrorThatLeavesNothing) {
  const TemporaryFolder folder;
  {
    const SmallFilesOnly limit(4);
    EXPECT_EQ(message_of([&] { OutputFile(folder.file("out")).write("too long"); }),
              folder.file("out") + ": cannot be written: File too large");
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(OutputFile, AMissingFolderIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("absent/out");
  EXPECT_EQ(message_of([&] { OutputFile file(path); }), path + ": cannot be created: No such file or directory");
}

TEST(OutputFile, NeverTakesThePlaceOfAFolderOrADevice) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { OutputFile file(folder.path()); }), folder.path() + ": is a directory, not a file");
  EXPECT_EQ(message_of([&] { OutputFile file("/dev/full"); }), "/dev/full: is a device, not a file");
  EXPECT_EQ(message_of([&] { OutputFile file(""); }), ": is not the name of a file");
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { OutputFile file(pipe); }), pipe + ": is a pipe, not a file");
}

TEST(OutputFile, FollowsALink) {
  const TemporaryFolder folder;
  folder.write("real", "before");
  std::filesystem::create_symlink(folder.file("real"), folder.file("link"));
  OutputFile file(folder.file("link"));
  file.write("after");
  file.commit();
  EXPECT_EQ(folder.read("real"), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
}

TEST(MappedFile, RefusesWhatIsNotAFileByName) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { MappedFile file(pipe); }), pipe + ": is a pipe, not a file");
  EXPECT_EQ(message_of([&] { MappedFile file(folder.path()); }), folder.path() + ": is a directory, not a file");
  EXPECT_EQ(message_of([&] { MappedFile file("/dev/zero"); }), "/dev/zero: is a device, not a file");
  EXPECT_EQ(message_of([&] { MappedFile file(folder.file("a/b")); }), folder.file("a/b") + ": no such file");
  EXPECT_EQ(message_of([&] { MappedFile file(folder.write("x", "") + "/y"); }),
            folder.file("x") + "/y: cannot be opened: Not a directory");
}

TEST(MappedFile, HoldsTheBytesAndMayBeEmptyAndMove) {
  const TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("empty", "")).bytes().empty());
  MappedFile first(folder.write("some", "some bytes"));
  const MappedFile second = std::move(first);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second.bytes().data()), second.bytes().size()), "some bytes");
}

TEST(QuoteName, KeepsControlBytesAndLengthOutOfMessages) {
  EXPECT_EQ(quote_name("a\x1b[31m\n"), "'a\\x1b[31m\\x0a'");
  EXPECT_EQ(quote_name(std::string(79, 'x') + "\xC3\xA9"), "'" + std::string(79, 'x') + "...'");
  EXPECT_EQ(quote_name(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
}

}  // namespace
}  // namespace headwise
