// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "headwise/io/file_error.h"
#include "headwise/io/file_kind.h"

namespace headwise {
namespace {

// Closes the descriptor on every way out; a mapping outlives it.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    if (errno == ENOENT || path_.empty()) throw FileNotFound(path_);
    fail_by_system(path_, "cannot be opened", errno);
  }
  struct stat facts {};
  if (::fstat(file.number, &facts) != 0) fail_by_system(path_, "cannot be examined", errno);
  if (!S_ISREG(facts.st_mode)) fail_not_a_file(path_, facts.st_mode);
  size_ = static_cast<std::size_t>(facts.st_size);
  if (size_ == 0) return;
  void* block = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (block == MAP_FAILED) fail_by_system(path_, "cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(block);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace headwise
