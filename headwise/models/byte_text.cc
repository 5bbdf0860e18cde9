// SPDX-License-Identifier: Apache-2.0
#include "headwise/models/byte_text.h"

#include <fmt/format.h>

#include "headwise/tensor/errors.h"

namespace headwise {

ByteVocabulary ByteVocabulary::of(std::string_view text) {
  std::array<bool, 256> occurs{};
  for (const char letter : text) occurs[static_cast<std::uint8_t>(letter)] = true;
  std::vector<std::uint8_t> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    if (occurs[byte]) bytes.push_back(static_cast<std::uint8_t>(byte));
  }
  return ByteVocabulary(std::move(bytes));
}

ByteVocabulary::ByteVocabulary(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {
  if (bytes_.empty()) throw ArgumentError("vocabulary: there is no byte");
  tokens_.fill(-1);
  for (std::size_t n = 0; n < bytes_.size(); ++n) {
    if (n > 0 && bytes_[n] <= bytes_[n - 1]) {
      throw ArgumentError(fmt::format("vocabulary: bytes must rise, got {} after {}", bytes_[n], bytes_[n - 1]));
    }
    tokens_[bytes_[n]] = static_cast<std::int16_t>(n);
  }
}

std::vector<std::int64_t> ByteVocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<std::uint8_t>(text[at]);
    if (tokens_[byte] < 0) {
      throw ArgumentError(
          fmt::format("vocabulary: byte {:#04x} at {} was not in the text that the model was trained on", byte, at));
    }
    tokens.push_back(tokens_[byte]);
  }
  return tokens;
}

std::string ByteVocabulary::name(std::int64_t token) const {
  const std::uint8_t byte = bytes_[static_cast<std::size_t>(token)];
  if (byte == ' ') return "␣";
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte > 0x20 && byte < 0x7F) return {static_cast<char>(byte)};
  return fmt::format("\\x{:02X}", byte);
}

}  // namespace headwise
