// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
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

std::string temporary_name(const std::string& target) {
  static std::atomic<std::uint64_t> counter{0};
  return target + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(follow_links(path_)) {
  struct stat facts {};
  if (::stat(target_.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    throw FileError(path_, std::string(file_kind(facts.st_mode)) + ", not a file");
  }
  if (target_.empty() || target_.back() == '/') throw FileError(path_, "is not the name of a file");
  // O_EXCL: a name left behind by a killed process with our number is passed over, never reused.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  do {
    temporary_ = temporary_name(target_);
    descriptor_ = ::open(temporary_.c_str(), kFlags, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw FileError(path_, "cannot be created: " + system_message(errno));
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
      throw FileError(path_, "cannot be written: " + system_message(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) throw FileError(path_, "cannot be written: " + system_message(errno));
  // Some network file systems report a lack of space only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    throw FileError(path_, "cannot be written: " + system_message(errno));
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw FileError(path_, "cannot be written: " + system_message(errno));
  }
  temporary_.clear();
  sync_folder(folder_of(target_));
}

}  // namespace headwise
