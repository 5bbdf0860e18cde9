// SPDX-License-Identifier: Apache-2.0
// Files by hand, byte for byte, for tests of the readers.
#ifndef HEADWISE_TESTS_SUPPORT_FILE_BYTES_H_
#define HEADWISE_TESTS_SUPPORT_FILE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

inline std::string little_endian_bytes(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// The header as it is, unpadded, behind its length; then the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = "") {
  return little_endian_bytes(header.size(), 8).append(header).append(data);
}

inline std::string npy_bytes(std::string_view dict, std::string_view data = "", int version = 1) {
  std::string bytes("\x93NUMPY");
  bytes += static_cast<char>(version);
  bytes += '\0';
  return bytes.append(little_endian_bytes(dict.size(), version == 1 ? 2 : 4)).append(dict).append(data);
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// The text of the exception that a call ends in; "nothing thrown" when it returns.
template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_FILE_BYTES_H_
