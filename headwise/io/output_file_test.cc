// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

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

// A process that has been and gone.
pid_t gone_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(OutputFile, RemovesWhatKilledProcessesLeftOfTheSameFileAndNothingElse) {
  const TemporaryFolder folder;
  const std::string gone = std::to_string(gone_process()), ours = std::to_string(::getpid());
  const std::string parent = std::to_string(::getppid());
  folder.write("curve.svg.tmp-" + gone + "-0", "half");
  folder.write("curve.svg.tmp-" + ours + "-99999", "half");  // of an earlier process with our number
  const std::vector<std::string> kept{"curve.svg",
                                      "curve.svg.tmp-" + parent + "-0",
                                      "curve.svg.tmp-" + gone,
                                      "curve.svg.tmp-" + gone + "-",
                                      "curve.svg.tmp-" + gone + "-0x",
                                      "curve.svg.tmp-0-0",
                                      "curve.svg.tmp--1-0",
                                      "curve.svg.tmp-x-0",
                                      "mycurve.svg.tmp-" + gone + "-0",
                                      "curve.csv.tmp-" + gone + "-0",
                                      "curve.svg.bak"};
  for (const std::string& name : kept) folder.write(name, "kept");
  std::filesystem::create_directory(folder.file("curve.svg.tmp-" + gone + "-1"));
  std::filesystem::create_symlink(folder.file("curve.svg"), folder.file("curve.svg.tmp-" + gone + "-2"));
  OutputFile writing(folder.file("curve.svg"));  // holds the lock of its temporary file
  const std::vector<std::string> before = folder.names();
  remove_stale_temporaries(folder.file("curve.svg"));
  std::vector<std::string> left;
  for (const std::string& name : before) {
    if (name != "curve.svg.tmp-" + gone + "-0" && name != "curve.svg.tmp-" + ours + "-99999") left.push_back(name);
  }
  EXPECT_EQ(left.size() + 2, before.size());
  EXPECT_EQ(folder.names(), left);
  writing.write("new");
  writing.commit();
  EXPECT_EQ(folder.read("curve.svg"), "new");
  remove_stale_temporaries(folder.file("absent/curve.svg"));
}

// The error number of what `call` throws.
template <class Call>
int code_of(const Call& call) {
  try {
    call();
  } catch (const SystemFileError& error) {
    return error.code();
  } catch (const FileError&) {
    return 0;
  }
  return 0;
}

TEST(SystemFileError, HasTheNumberOfTheOperatingSystem) {
  const TemporaryFolder folder;
  EXPECT_EQ(code_of([&] { OutputFile file(folder.file("absent/out")); }), ENOENT);
  EXPECT_EQ(code_of([&] { OutputFile file(folder.path()); }), EISDIR);
  EXPECT_EQ(code_of([&] { OutputFile file(folder.path() + "/"); }), EISDIR);
  EXPECT_EQ(code_of([&] { OutputFile file(folder.file("new/")); }), EISDIR);
  EXPECT_EQ(code_of([&] { OutputFile file(""); }), ENOENT);
  EXPECT_EQ(code_of([&] { OutputFile file("/dev/full"); }), 0);  // our own refusal
  EXPECT_EQ(code_of([&] { OutputFile file(folder.write("x", "") + "/y"); }), ENOTDIR);
  EXPECT_EQ(code_of([&] { MappedFile file(folder.file("absent")); }), ENOENT);
  EXPECT_EQ(code_of([&] { MappedFile file(folder.path()); }), EISDIR);
  const SmallFilesOnly limit(4);
  EXPECT_EQ(code_of([&] { OutputFile(folder.file("out")).write("too long"); }), EFBIG);
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
