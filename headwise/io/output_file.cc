// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/file_kind.h"

namespace headwise {
namespace {

std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved ? std::string(resolved.get()) : path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A rename is only durable once its folder is. Some file systems refuse to sync a folder; the file is whole anyway.
void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

constexpr std::string_view kMark = ".tmp-";

std::string temporary_name(const std::string& target) {
  static std::atomic<std::uint64_t> counter{0};
  return target + std::string(kMark) + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
}

// The process that gave a file this name, as the temporary file of `target`; none where the name is another.
std::optional<pid_t> writer_of(std::string_view name, std::string_view target) {
  if (!name.starts_with(target)) return std::nullopt;
  name.remove_prefix(target.size());
  if (!name.starts_with(kMark)) return std::nullopt;
  name.remove_prefix(kMark.size());
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  std::uint64_t number = 0;
  const auto [dash, fault] = std::from_chars(name.data(), end, process);
  if (fault != std::errc() || process < 1 || dash == end || *dash != '-') return std::nullopt;
  const auto [stop, wrong] = std::from_chars(dash + 1, end, number);
  if (wrong != std::errc() || stop != end) return std::nullopt;
  return process;
}

// No process of the name's number is there, or it is this one, of which a container may have had another; and nobody
// holds the lock of who is writing.
bool is_stale(const std::string& path, pid_t writer) {
  if (writer != ::getpid() && (::kill(writer, 0) == 0 || errno != ESRCH)) return false;
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool is_free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return is_free;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(follow_links(path_)) {
  struct stat facts {};
  if (::stat(target_.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    fail_not_a_file(path_, facts.st_mode);
  }
  if (target_.empty() || target_.back() == '/') {
    throw SystemFileError(path_, "is not the name of a file", target_.empty() ? ENOENT : EISDIR);
  }
  // O_EXCL: a name left behind by a killed process with our number is passed over, never reused.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  do {
    temporary_ = temporary_name(target_);
    descriptor_ = ::open(temporary_.c_str(), kFlags, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_by_system(path_, "cannot be created", errno);
  ::flock(descriptor_, LOCK_EX | LOCK_NB);  // for remove_stale_temporaries; not every file system has locks
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB - 4 KiB at once.
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_by_system(path_, "cannot be written", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail_by_system(path_, "cannot be written", errno);
  // Some network file systems report a lack of space only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    fail_by_system(path_, "cannot be written", errno);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_by_system(path_, "cannot be written", errno);
  }
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void remove_stale_temporaries(const std::string& path) {
  const std::string target = follow_links(path), folder = folder_of(target);
  const std::string name = target.substr(target.rfind('/') + 1);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    const std::optional<pid_t> writer = writer_of(found, name);
    if (writer && is_stale(entry->path().string(), *writer)) ::unlink(entry->path().c_str());
  }
}

}  // namespace headwise
